#include "models/cost/collective_correction.h"

#include <algorithm>
#include <cmath>

namespace stepsim {
namespace {

// How far two points may bend the latency and the transfer apart: beyond, they are no measurement
// of what the table describes, and the rest is left to the ratio.
constexpr double kMostScale = 20;

bool Matches(std::string_view pattern, std::string_view value) {
  return pattern == "*" || pattern == value;
}

bool MatchesTransport(std::string_view pattern, std::string_view transport) {
  if (pattern == "node") return IsWithinNode(transport);
  if (pattern == "network") return !IsWithinNode(transport);
  return Matches(pattern, transport);
}

double ClampScale(double scale) { return std::clamp(scale, 1 / kMostScale, kMostScale); }

}  // namespace

const CollectiveCorrection& FindCorrection(const CollectiveCorrections& table,
                                           const CorrectionKey& key) {
  static const CollectiveCorrection kIdentity{};
  for (const CollectiveCorrection& row : table.rows) {
    if (MatchesTransport(row.transport, key.transport) && Matches(row.generation, key.generation) &&
        Matches(row.algorithm, key.algorithm) && Matches(row.protocol, key.protocol) &&
        Matches(row.collective, key.collective)) {
      return row;
    }
  }
  return kIdentity;
}

SplitTime Correct(const CollectiveCorrection& row, const SplitTime& nccl) {
  const double ramp = ToSeconds(row.ramp);
  const bool is_filling = ramp > 0 && nccl.transfer > 0;
  const double filling = is_filling ? std::pow(ramp / nccl.transfer, row.ramp_exponent) : 0;
  return {.latency = row.latency_factor * nccl.latency + ToSeconds(row.added_latency),
          .transfer = row.time_factor * nccl.transfer * (1 + filling)};
}

bool IsOutside(const CollectiveCorrection& row, Bytes size) {
  // Curves go up in steps of 2: what lies within the next step is still between two measured sizes
  // where another algorithm or protocol takes over.
  constexpr double kStep = 2;
  return row.largest.value > 0 && (ToDouble(size) * kStep <= ToDouble(row.smallest) ||
                                   ToDouble(size) >= ToDouble(row.largest) * kStep);
}

CollectiveCalibration::CollectiveCalibration(const std::vector<Knot>& knots) {
  if (knots.empty()) return;
  const Knot& low = knots.front();
  const Knot& high = knots.back();
  latency_scale_ = transfer_scale_ = ClampScale(low.measured / low.predicted.sum());
  const double determinant = low.predicted.latency * high.predicted.transfer -
                             high.predicted.latency * low.predicted.transfer;
  if (knots.size() > 1 && determinant > 0) {
    latency_scale_ = ClampScale(
        (low.measured * high.predicted.transfer - high.measured * low.predicted.transfer) /
        determinant);
    transfer_scale_ = ClampScale((high.measured - latency_scale_ * high.predicted.latency) /
                                 high.predicted.transfer);
  }
  for (const Knot& knot : knots) {
    const double scaled =
        latency_scale_ * knot.predicted.latency + transfer_scale_ * knot.predicted.transfer;
    ratios_.push_back({std::log(std::max(1.0, knot.bytes)), std::log(knot.measured / scaled)});
  }
}

double CollectiveCalibration::LogRatio(double log_bytes) const {
  const auto above =
      std::lower_bound(ratios_.begin(), ratios_.end(), log_bytes,
                       [](const Ratio& ratio, double value) { return ratio.log_bytes < value; });
  if (above == ratios_.end()) return ratios_.back().log_ratio;
  if (above == ratios_.begin()) return above->log_ratio;
  const Ratio& low = *std::prev(above);
  const double part = (log_bytes - low.log_bytes) / (above->log_bytes - low.log_bytes);
  return low.log_ratio + part * (above->log_ratio - low.log_ratio);
}

void CollectiveCalibration::ApplyTo(double bytes, CollectiveCost* cost) const {
  if (ratios_.empty() || cost->seconds <= 0) return;
  const double log_bytes = std::log(std::max(1.0, bytes));
  const double ratio = std::exp(LogRatio(log_bytes));
  const double transfer = cost->seconds - cost->latency_seconds;
  cost->latency_seconds *= latency_scale_ * ratio;
  cost->seconds = cost->latency_seconds + transfer_scale_ * transfer * ratio;
  // Between the points nothing but they count, wherever the correction was fitted.
  cost->is_extrapolated =
      log_bytes < ratios_.front().log_bytes || log_bytes > ratios_.back().log_bytes;
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
  std::stable_sort(
      points.begin(), points.end(),
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
