// Interleaved 1F1B (Narayanan et al. 2021): every rank holds several chunks of the model and runs a
// group of micro-batches through one chunk before it turns to the next. PyTorch's
// ScheduleInterleaved1F1B and Megatron-LM choose the groups differently; PyTorch's
// ScheduleInterleavedZeroBubble splits the backward (ZB-H1 of Qi et al. 2023 for one chunk).
#include <algorithm>
#include <string>

#include "models/pipeline/families.h"
#include "models/pipeline/rank_order.h"

namespace stepsim {
namespace {

std::size_t Count(std::int32_t number) { return static_cast<std::size_t>(number); }

// The chunk of a rank's k-th forward; its k-th backward is on the mirrored chunk.
std::vector<std::size_t> ChunkOfStep(const ScheduleShape& shape, std::int32_t group) {
  std::vector<std::size_t> chunks;
  for (std::int32_t begin = 0; begin < shape.microbatches; begin += group) {
    const std::int32_t size = std::min(group, shape.microbatches - begin);
    for (std::size_t chunk = 0; chunk < Count(shape.chunks); ++chunk) {
      chunks.insert(chunks.end(), Count(size), chunk);
    }
  }
  return chunks;
}

std::vector<std::int32_t> StagesOfRank(const ScheduleShape& shape, std::int32_t rank) {
  std::vector<std::int32_t> stages;
  for (std::int32_t c = 0; c < shape.chunks; ++c) stages.push_back(c * shape.ranks + rank);
  return stages;
}

// Forwards that rank r runs before its first backward: a whole group through every chunk but the
// last, and `per_rank` for each rank behind it.
std::size_t WarmUp(const ScheduleShape& shape, std::int32_t rank, std::int32_t group,
                   std::int32_t per_rank) {
  const std::int32_t forwards = (shape.chunks - 1) * group + per_rank * (shape.ranks - 1 - rank);
  return Count(std::min(forwards, shape.microbatches * shape.chunks));
}

// Joined: one more forward first, so that no backward needs the forward that it is joined to.
RankOrders Interleave(const ScheduleShape& shape, std::int32_t group, bool is_joined = false) {
  const std::vector<std::size_t> chunk_of_step = ChunkOfStep(shape, group);
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankOrder order(StagesOfRank(shape, rank), shape.microbatches);
    std::size_t next = WarmUp(shape, rank, group, 2);
    if (is_joined) next = std::min(next + 1, chunk_of_step.size());
    for (std::size_t k = 0; k < next; ++k) order.Forward(chunk_of_step[k]);
    for (const std::size_t chunk : chunk_of_step) {
      const std::size_t backward = Count(shape.chunks) - 1 - chunk;
      const bool has_forward = next < chunk_of_step.size();
      if (has_forward && is_joined) {
        order.Overlap(chunk_of_step[next++], backward);
      } else {
        if (has_forward) order.Forward(chunk_of_step[next++]);
        order.Backward(backward);
      }
    }
    ranks.push_back(order.Take());
  }
  return ranks;
}

std::int32_t RoundsOf(const ScheduleShape& shape) {
  return std::max(1, shape.microbatches / shape.ranks);
}

std::int32_t MegatronGroup(const ScheduleShape& shape) {
  return shape.group == 0 ? shape.ranks : shape.group;
}

}  // namespace

ShapeProblem RoundsRule(const ScheduleShape& shape) {
  const std::int32_t rounds = RoundsOf(shape);
  if (shape.microbatches % rounds == 0) return {};
  return {&ScheduleShape::microbatches,
          "a multiple of " + std::to_string(rounds) + " (of micro-batches / stages, rounded down)"};
}

RankOrders InterleavedOrder(const ScheduleShape& shape) {
  return Interleave(shape, shape.microbatches / RoundsOf(shape));
}

ShapeProblem MegatronGroupRule(const ScheduleShape& shape) {
  const std::int32_t group = MegatronGroup(shape);
  const std::int32_t last = shape.microbatches % group;
  if (group < shape.ranks || group > std::max(shape.ranks, shape.microbatches)) {
    return {&ScheduleShape::group, "from the number of stages to that of micro-batches"};
  }
  if (last != 0 && last < shape.ranks) {
    return {&ScheduleShape::microbatches, "groups of " + std::to_string(group) +
                                              ", the last one of at least " +
                                              std::to_string(shape.ranks)};
  }
  return {};
}

RankOrders MegatronInterleavedOrder(const ScheduleShape& shape) {
  return Interleave(shape, MegatronGroup(shape));
}

RankOrders MegatronPairedOrder(const ScheduleShape& shape) {
  return Interleave(shape, MegatronGroup(shape), /*is_joined=*/true);
}

RankOrders InterleavedZeroBubbleOrder(const ScheduleShape& shape) {
  const std::int32_t group = shape.microbatches / RoundsOf(shape);
  const std::vector<std::size_t> chunk_of_step = ChunkOfStep(shape, group);
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankOrder order(StagesOfRank(shape, rank), shape.microbatches);
    std::size_t next = WarmUp(shape, rank, group, 1);
    for (std::size_t k = 0; k < next; ++k) order.Forward(chunk_of_step[k]);
    for (std::size_t k = 0; k < chunk_of_step.size(); ++k) {
      if (next < chunk_of_step.size()) order.Forward(chunk_of_step[next++]);
      order.InputGradient(Count(shape.chunks) - 1 - chunk_of_step[k]);
      // Weight gradients lag by as many steps as the rank is far from the first.
      if (k >= Count(rank)) order.OldestWeightGradient();
    }
    while (order.PendingWeightGradients() > 0) order.OldestWeightGradient();
    ranks.push_back(order.Take());
  }
  return ranks;
}

}  // namespace stepsim
