// Which curves do measured collectives lie on? One for each collective, shape of group and backend,
// and where NCCL's choice is known one for each algorithm and protocol.
//
//   const CurveFits fits = FitCurves(measurements.collectives);
//   fits.curves   -> for hardware.collective_curves
//   fits.points   -> of groups with too few sizes for a curve: for hardware.calibration
//
// t = latency + T + sqrt(ramp x T) by robust, non-negative least squares (robust_fit.h). Where
// sizes left out are predicted better by what was measured beside them, the measured sizes become
// knots.
#pragma once

#include <vector>

#include "models/calibration/measurements.h"
#include "models/spec/calibration_spec.h"
#include "models/spec/collective_spec.h"

namespace stepsim {

struct CurveFits {
  std::vector<CollectiveCurve> curves;
  std::vector<CollectivePoint> points;
  std::vector<FitRecord> records;  // one for each curve and each group of points
};

// Fewer different sizes than this make no curve.
inline constexpr std::size_t kFewestSizes = 4;

CurveFits FitCurves(const std::vector<MeasuredCall>& calls);

// One curve through calls of the same kind. REQUIRES: kFewestSizes different sizes at least.
struct CurveFit {
  CollectiveCurve curve;
  FitRecord record;
};
CurveFit FitCurve(const std::vector<MeasuredCall>& calls);

}  // namespace stepsim
