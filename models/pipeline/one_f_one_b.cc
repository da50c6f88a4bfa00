// 1F1B (Narayanan et al. 2021): a backward as soon as there is one, so rank r holds at most p - r
// micro-batches. Megatron-LM and PyTorch's Schedule1F1B execute this order.
#include <algorithm>

#include "models/pipeline/families.h"
#include "models/pipeline/rank_order.h"

namespace stepsim {

RankOrders OneFOneBOrder(const ScheduleShape& shape) {
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankOrder order({rank}, shape.microbatches);
    const std::int32_t warm_up = std::min(shape.ranks - rank - 1, shape.microbatches);
    for (std::int32_t i = 0; i < warm_up; ++i) order.Forward(0);
    for (std::int32_t i = 0; i < shape.microbatches; ++i) {
      order.Forward(0);  // none is left in the last `warm_up` rounds
      order.Backward(0);
    }
    ranks.push_back(order.Take());
  }
  return ranks;
}

}  // namespace stepsim
