// How long does a collective take by what was measured on the real system?
//
//   MeasuredCurves curves(hardware, spec);
//   curves.ApplyTo(request, &cost);  // where hardware.collective_curves have one for it
//
// A curve holds for NCCL as it was measured: with its knobs at their defaults but max_ctas. What
// the job sets otherwise changes the time as the model says: t = curve(S) x model(S) / model as
// measured(S). Equations: models/README.md, "Calibration".
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "models/cost/collective_cost.h"
#include "models/spec/calibration_spec.h"

namespace stepsim {

class NcclPricer;

// The smooth part, in seconds: latency + T + sqrt(ramp x T).
double SmoothSeconds(const CollectiveCurve& curve, double bytes);
// With the knots.
double CurveSeconds(const CollectiveCurve& curve, double bytes);

class MeasuredCurves {
 public:
  MeasuredCurves(const HardwareSpec& hardware, const CollectiveModelSpec& spec);
  ~MeasuredCurves();

  // REQUIRES: `cost` is the price of `request` by the job's own model.
  void ApplyTo(const CollectiveRequest& request, CollectiveCost* cost);

 private:
  std::vector<const CollectiveCurve*> CurvesOf(const CollectiveRequest& request) const;
  const CollectiveCurve* Find(const CollectiveRequest& request, const CollectiveCost& cost) const;
  // The model's own price of what was measured.
  double ModelSeconds(const CollectiveCurve& curve, const CollectiveRequest& request,
                      const CollectiveCost& cost);

  HardwareSpec hardware_;
  CollectiveModelSpec spec_;
  std::map<std::int64_t, std::unique_ptr<NcclPricer>> as_measured_;  // by max_ctas
};

}  // namespace stepsim
