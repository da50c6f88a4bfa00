// How long is a rank idle, by the formulas of the schedules' papers? Each returns nothing where its
// formula does not hold: too few micro-batches, or an order that was made for other times.
#include <algorithm>
#include <cmath>

#include "models/pipeline/families.h"

namespace stepsim {
namespace {

bool IsEqual(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

bool AreEqual(const ChunkTimes& t) {
  return IsEqual(t.forward, t.input_gradient) && IsEqual(t.forward, t.weight_gradient);
}

}  // namespace

// Fill and drain: one forward and one backward for each of the other ranks.
std::optional<double> FlushedIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  return (shape.ranks - 1) * (times.forward + times.backward());
}

std::optional<double> InterleavedIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  if (shape.microbatches < shape.ranks) return std::nullopt;
  return FlushedIdle(shape, times);
}

// A weight gradient hides in the hole that a forward or an input gradient leaves, if it fits.
std::optional<double> ZeroBubbleIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  if (shape.microbatches < shape.ranks) return std::nullopt;
  if (times.weight_gradient > std::min(times.forward, times.input_gradient)) return std::nullopt;
  return (shape.ranks - 1) * (times.forward + times.input_gradient - times.weight_gradient);
}

// Holds where the order leaves no hole in the steady state: tW at most tF, and tI = tF + tW, or
// tF = tW with tI between tW and tF + tW.
std::optional<double> ZbvIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  const double f = times.forward, i = times.input_gradient, w = times.weight_gradient;
  if (shape.microbatches < 2 * shape.ranks - 1 || w > f) return std::nullopt;
  if (!IsEqual(i, f + w) && !(IsEqual(f, w) && i >= w && i <= f + w)) return std::nullopt;
  return (shape.ranks - 1) * (f + i - w);
}

// A pair takes tF + tB here, so (p/2-1)(tFB + tB - 3tW) is 2(p/2-1)t at equal times.
std::optional<double> DualPipeIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  if (!AreEqual(times)) return std::nullopt;
  return (shape.ranks / 2 - 1) * 2 * times.forward;
}

std::optional<double> DualPipeVIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  if (!AreEqual(times)) return std::nullopt;
  return (shape.ranks - 1) * 2 * times.forward;
}

}  // namespace stepsim
