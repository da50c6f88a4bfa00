// How do measured times differ from the model? Fitted corrections, and points of one's own cluster.
#pragma once

#include <string_view>
#include <vector>

#include "models/cost/collective_cost.h"
#include "models/cost/nccl_model.h"
#include "models/spec/collective_spec.h"
#include "models/spec/hardware.h"

namespace stepsim {

// Kind of the slowest link of the group: that of the network where there is one.
std::string_view TransportOf(const HardwareSpec& hardware, const Placement& placement);

// The first row that matches; null: none does.
const CollectiveCorrection* FindCorrection(const CollectiveCorrections& table,
                                           std::string_view transport, std::string_view algorithm,
                                           std::string_view protocol, std::string_view collective);

// factor x latency + added + bytes / bandwidth x time_factor x (1 + (ramp / bytes)^exponent).
double CorrectedSeconds(const CollectiveCorrection* correction, const NcclPrediction& prediction,
                        double bytes);

// Measured points of the same collective on the same shape of group: a prediction is multiplied
// with measured / predicted, interpolated in log(size) between the points and constant beyond them.
class CollectiveCalibration {
 public:
  struct Knot {
    double log_bytes = 0;
    double log_ratio = 0;
  };
  // `knots` by ascending size.
  explicit CollectiveCalibration(std::vector<Knot> knots) : knots_(std::move(knots)) {}
  void ApplyTo(double bytes, CollectiveCost* cost) const;

 private:
  std::vector<Knot> knots_;
};

// The points of `hardware` for this collective and group, ascending by size.
std::vector<CollectivePoint> PointsFor(const HardwareSpec& hardware, CollectiveOp op,
                                       const Placement& placement);

}  // namespace stepsim
