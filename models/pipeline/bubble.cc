// How long is a rank idle, by the formulas of the schedules' papers? Each returns nothing where its
// formula does not hold: too few micro-batches, or an order that was made for other times.
#include "models/pipeline/families.h"

namespace stepsim {
namespace {

bool AreEqual(const ChunkTimes& t) {
  return t.forward == t.input_gradient && t.forward == t.weight_gradient;
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

// Weight gradients fill the drain as far as they are short enough to be put off.
std::optional<double> ZeroBubbleIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  if (shape.microbatches < shape.ranks || times.weight_gradient > times.input_gradient) {
    return std::nullopt;
  }
  return (shape.ranks - 1) * (times.forward + times.input_gradient - times.weight_gradient);
}

std::optional<double> ZbvIdle(const ScheduleShape& shape, const ChunkTimes& times) {
  if (shape.microbatches < 2 * shape.ranks - 1) return std::nullopt;
  return ZeroBubbleIdle(shape, times);
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
