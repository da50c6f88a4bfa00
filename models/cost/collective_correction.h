// How do measured times differ from NCCL's own prediction? The row of a correction table that holds
// for a collective, what it makes of NCCL's latency and transfer time, and measured points of one's
// own cluster.
//
// Equations: models/README.md, "Corrections and calibration".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/cost/collective_cost.h"
#include "models/spec/collective_spec.h"
#include "models/spec/correction_key.h"
#include "models/spec/hardware.h"

namespace stepsim {

struct CorrectionKey {
  std::string_view transport;   // CorrectionTransport
  std::string_view generation;  // ToString(GpuGeneration)
  std::string_view algorithm;
  std::string_view protocol;
  std::string_view collective;  // "all_reduce"
};

// The first row that matches; the identity where none does.
const CollectiveCorrection& FindCorrection(const CollectiveCorrections& table,
                                           const CorrectionKey& key);

// Seconds that do not depend on the bytes, and those that do.
struct SplitTime {
  double latency = 0;
  double transfer = 0;
  double sum() const { return latency + transfer; }
};
SplitTime Correct(const CollectiveCorrection& row, const SplitTime& nccl);
// Whether a size lies a factor 2 or more beyond those that the row was fitted to; no where they are
// unknown.
bool IsOutside(const CollectiveCorrection& row, Bytes size);

// Measured points of one collective on one shape of group. The smallest point scales the latency
// and the largest the transfer, so that the prediction passes through both; what then remains at
// the points between is interpolated in log(size).
class CollectiveCalibration {
 public:
  struct Knot {
    double bytes = 0;
    SplitTime predicted;
    double measured = 0;  // seconds
  };
  // `knots` by ascending size.
  explicit CollectiveCalibration(const std::vector<Knot>& knots);
  // REQUIRES: cost->latency_seconds is the part of cost->seconds that does not depend on `bytes`.
  void ApplyTo(double bytes, CollectiveCost* cost) const;

 private:
  struct Ratio {
    double log_bytes = 0;
    double log_ratio = 0;  // what is left of measured / predicted
  };
  double LogRatio(double log_bytes) const;

  double latency_scale_ = 1;
  double transfer_scale_ = 1;
  std::vector<Ratio> ratios_;
};

// The points of `hardware` for this collective and group, ascending by size.
std::vector<CollectivePoint> PointsFor(const HardwareSpec& hardware, CollectiveOp op,
                                       const Placement& placement);

}  // namespace stepsim
