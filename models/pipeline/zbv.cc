// ZB-V (Qi et al. 2024; PyTorch's ScheduleZBVZeroBubble): two chunks per rank in a V, so the rank
// that runs the first stage also runs the last, and weight gradients fill the holes. sail-sg's own
// scheduler finds the same order, but for weight gradients that it puts off towards the end.
#include <algorithm>

#include "models/pipeline/families.h"
#include "models/pipeline/rank_order.h"

namespace stepsim {
namespace {

enum class Drain { kFillsHoles, kPutsOff };  // weight gradients behind the last forward

// The V of one rank: chunk 0 of `order` is on the way down, chunk 1 on the way up.
class RankOfV {
 public:
  RankOfV(RankOrder& order, std::int32_t p, std::int32_t rank)
      : order_(order), rank_(rank), behind_(p - rank) {}

  void Run(Drain drain) {
    for (std::int32_t i = 0; i < 2 * behind_ - 1; ++i) order_.Forward(0);
    for (std::int32_t i = 0; i < rank_; ++i) order_.Forward(1), order_.Forward(0);
    for (std::int32_t i = 0; i < behind_; ++i) order_.Forward(1), WholeBackward(1);
    while (order_.HasForwards(0) || order_.HasForwards(1)) {
      order_.Forward(0);
      WholeBackward(0);
      order_.Forward(1);
      order_.InputGradient(1);
      if (drain == Drain::kFillsHoles || order_.HasForwards(1)) order_.WeightGradient(1);
    }
    drain == Drain::kFillsHoles ? FillHoles() : PutOff();
  }

 private:
  void WholeBackward(std::size_t chunk) {
    order_.InputGradient(chunk);
    order_.WeightGradient(chunk);
  }

  void FillHoles() {
    for (std::int32_t i = 0; i < rank_; ++i) order_.InputGradient(0), order_.InputGradient(1);
    for (std::int32_t i = 0; i < behind_; ++i) WholeBackward(0);
    while (order_.HasWeightGradients(1)) order_.WeightGradient(1);
    while (order_.HasWeightGradients(0)) order_.WeightGradient(0);
  }

  // The same input gradients; the weight gradients lag behind by two for each rank up to here.
  void PutOff() {
    const auto put_off = [this](std::size_t chunk) {
      order_.InputGradient(chunk);
      if (order_.PendingWeightGradients() >= 2 * (rank_ + 1)) order_.OldestWeightGradient();
    };
    for (std::int32_t i = 0; i < rank_; ++i) put_off(0), put_off(1);
    for (std::int32_t i = 0; i < behind_; ++i) put_off(0);
    while (order_.PendingWeightGradients() > 0) order_.OldestWeightGradient();
  }

  RankOrder& order_;
  std::int32_t rank_;
  std::int32_t behind_;  // ranks from here to the turn of the V
};

RankOrders Order(const ScheduleShape& shape, Drain drain) {
  const std::int32_t p = shape.ranks;
  // The steps need 2p - 1 micro-batches; of fewer the rest is left out.
  const std::int32_t planned = std::max(2 * p - 1, shape.microbatches);
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < p; ++rank) {
    RankOrder order({rank, 2 * p - 1 - rank}, shape.microbatches, planned);
    RankOfV(order, p, rank).Run(drain);
    ranks.push_back(order.Take());
  }
  return ranks;
}

}  // namespace

ShapeProblem TwoChunksRule(const ScheduleShape& shape) {
  if (shape.chunks != 2) return {&ScheduleShape::chunks, "2"};
  return {};
}

RankOrders ZbvOrder(const ScheduleShape& shape) { return Order(shape, Drain::kFillsHoles); }

RankOrders SailZbvOrder(const ScheduleShape& shape) { return Order(shape, Drain::kPutsOff); }

}  // namespace stepsim
