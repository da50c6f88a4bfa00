#include "models/cost/collective_correction.h"

#include <algorithm>
#include <cmath>

namespace stepsim {
namespace {

bool Matches(std::string_view pattern, std::string_view name) {
  return pattern == "*" || pattern == name;
}

}  // namespace

std::string_view TransportOf(const HardwareSpec& hardware, const Placement& placement) {
  return placement.nodes > 1 ? hardware.network.link.type : hardware.intra_node.type;
}

const CollectiveCorrection* FindCorrection(const CollectiveCorrections& table,
                                           std::string_view transport, std::string_view algorithm,
                                           std::string_view protocol, std::string_view collective) {
  for (const CollectiveCorrection& row : table.rows) {
    if (Matches(row.transport, transport) && Matches(row.algorithm, algorithm) &&
        Matches(row.protocol, protocol) && Matches(row.collective, collective)) {
      return &row;
    }
  }
  return nullptr;
}

double CorrectedSeconds(const CollectiveCorrection* correction, const NcclPrediction& prediction,
                        double bytes) {
  constexpr double kUs = 1e-6;
  const double latency = prediction.latency_us * kUs;
  double transfer = bytes / (prediction.bandwidth * 1e9);
  if (correction == nullptr) return latency + transfer;
  transfer *= correction->time_factor;
  if (bytes > 0 && correction->ramp.value > 0) {
    transfer *= 1 + std::pow(ToDouble(correction->ramp) / bytes, correction->ramp_exponent);
  }
  return correction->latency_factor * latency + ToSeconds(correction->added_latency) + transfer;
}

void CollectiveCalibration::ApplyTo(double bytes, CollectiveCost* cost) const {
  if (knots_.empty() || cost->seconds <= 0) return;
  const double at = std::log(std::max(1.0, bytes));
  const auto above =
      std::lower_bound(knots_.begin(), knots_.end(), at,
                       [](const Knot& knot, double value) { return knot.log_bytes < value; });
  double ratio = 0;
  if (above == knots_.end()) {
    ratio = knots_.back().log_ratio;
    cost->is_extrapolated = true;
  } else if (above->log_bytes == at) {
    ratio = above->log_ratio;
  } else if (above == knots_.begin()) {
    ratio = above->log_ratio;
    cost->is_extrapolated = true;
  } else {
    const Knot& low = *std::prev(above);
    const double part = (at - low.log_bytes) / (above->log_bytes - low.log_bytes);
    ratio = low.log_ratio + part * (above->log_ratio - low.log_ratio);
  }
  cost->seconds *= std::exp(ratio);
}

std::vector<CollectivePoint> PointsFor(const HardwareSpec& hardware, CollectiveOp op,
                                       const Placement& placement) {
  std::vector<CollectivePoint> points;
  for (const CollectivePoint& point : hardware.calibration) {
    if (point.collective == ToString(op) && point.nodes == placement.nodes &&
        point.ranks == placement.ranks) {
      points.push_back(point);
    }
  }
  std::sort(points.begin(), points.end(),
            [](const CollectivePoint& a, const CollectivePoint& b) { return a.size < b.size; });
  // Two measurements of one size: the first one holds.
  points.erase(std::unique(points.begin(), points.end(),
                           [](const CollectivePoint& a, const CollectivePoint& b) {
                             return a.size == b.size;
                           }),
               points.end());
  return points;
}

}  // namespace stepsim
