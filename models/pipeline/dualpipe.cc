// DualPipe (DeepSeek-V3): two copies of the model in opposite directions, so that a forward of one
// direction overlaps a backward of the other. DualPipeV (PyTorch's ScheduleDualPipeV) cuts it in
// half: one copy of twice as many stages, folded into a V.
#include <algorithm>
#include <string>

#include "models/pipeline/families.h"
#include "models/pipeline/rank_order.h"

namespace stepsim {
namespace {

// The eight steps. Chunk 0 of `order` is the nearer to its direction's entry, and `distance` ranks
// lie before it on the way to the turn of the pipeline, of `half` ranks in all.
void RunRank(RankOrder& order, std::int32_t half, std::int32_t distance,
             std::int32_t microbatches_per_direction) {
  const std::int32_t behind = half - distance - 1;
  for (std::int32_t i = 0; i < 2 * behind; ++i) order.Forward(0);
  for (std::int32_t i = 0; i <= distance; ++i) order.Forward(0), order.Forward(1);
  for (std::int32_t i = 0; i < behind; ++i) {
    order.InputGradient(1);
    order.OldestWeightGradient();
    order.Forward(1);
  }
  const std::int32_t steady = microbatches_per_direction - 2 * half + distance + 1;
  for (std::int32_t i = 0; i < steady; ++i) {
    if (i == 0 && behind == 0) {  // nothing to overlap with yet at the turn
      order.Forward(0), order.Backward(1);
    } else {
      order.Overlap(0, 1);
    }
    order.Overlap(1, 0);
  }
  for (std::int32_t i = 0; i < behind; ++i) {
    order.Backward(1);
    order.Overlap(1, 0);
  }
  // In the second half of this step weight gradients are put off, to fill the end.
  for (std::int32_t i = 0; i < 2 * (distance + 1); ++i) {
    const std::size_t chunk = i % 2 == 0 ? 1 : 0;
    if (i <= distance) {
      order.Backward(chunk);
    } else {
      order.InputGradient(chunk);
    }
  }
  for (std::int32_t i = 0; i < behind; ++i) order.OldestWeightGradient(), order.InputGradient(0);
  for (std::int32_t i = 0; i <= distance; ++i) order.OldestWeightGradient();
}

}  // namespace

ShapeProblem DualPipeRule(const ScheduleShape& shape) {
  if (shape.chunks != 1) return {&ScheduleShape::chunks, "1 (of each of two copies of the model)"};
  if (shape.ranks % 2 != 0) return {&ScheduleShape::ranks, "an even number"};
  if (shape.microbatches % 2 != 0 || shape.microbatches < 2 * shape.ranks) {
    return {&ScheduleShape::microbatches,
            "an even number from " + std::to_string(2 * shape.ranks) + " (twice the stages)"};
  }
  return {};
}

RankOrders DualPipeOrder(const ScheduleShape& shape) {
  const std::int32_t p = shape.ranks, m = shape.microbatches;
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < p; ++rank) {
    const RankOrder::Chunk down{rank, 0, m / 2}, up{p - 1 - rank, m / 2, m};
    const bool enters_here = rank < p / 2;
    RankOrder order(enters_here ? std::vector{down, up} : std::vector{up, down});
    RunRank(order, p / 2, std::min(rank, p - 1 - rank), m / 2);
    ranks.push_back(order.Take());
  }
  return ranks;
}

ShapeProblem DualPipeVRule(const ScheduleShape& shape) {
  if (shape.chunks != 2) return {&ScheduleShape::chunks, "2"};
  if (shape.microbatches < 2 * shape.ranks) {
    return {&ScheduleShape::microbatches,
            "from " + std::to_string(2 * shape.ranks) + " (twice the ranks)"};
  }
  return {};
}

RankOrders DualPipeVOrder(const ScheduleShape& shape) {
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankOrder order({rank, 2 * shape.ranks - 1 - rank}, shape.microbatches);
    RunRank(order, shape.ranks, rank, shape.microbatches);
    ranks.push_back(order.Take());
  }
  return ranks;
}

}  // namespace stepsim
