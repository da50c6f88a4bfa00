// GPipe (Huang et al. 2019; PyTorch's ScheduleGPipe): simple, and every micro-batch is in flight.
#include "models/pipeline/families.h"
#include "models/pipeline/rank_order.h"

namespace stepsim {

ShapeProblem OneChunkRule(const ScheduleShape& shape) {
  if (shape.chunks != 1) return {&ScheduleShape::chunks, "1"};
  return {};
}

RankOrders GPipeOrder(const ScheduleShape& shape) {
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankOrder order({rank}, shape.microbatches);
    for (std::int32_t i = 0; i < shape.microbatches; ++i) order.Forward(0);
    for (std::int32_t i = 0; i < shape.microbatches; ++i) order.Backward(0);
    ranks.push_back(order.Take());
  }
  return ranks;
}

}  // namespace stepsim
