// Looped breadth first (Lamy-Poirier 2022; PyTorch's ScheduleLoopedBFS): all micro-batches through
// a rank's chunk before its next one, so that each chunk's parameters are gathered once.
#include "models/pipeline/families.h"

namespace stepsim {

ShapeProblem LoopedRule(const ScheduleShape&) { return {}; }

RankOrders LoopedBfsOrder(const ScheduleShape& shape) {
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action> actions;
    for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (std::int32_t mb = 0; mb < shape.microbatches; ++mb) {
        actions.push_back({ActionKind::kForward, chunk * shape.ranks + rank, mb});
      }
    }
    for (std::int32_t chunk = shape.chunks - 1; chunk >= 0; --chunk) {
      for (std::int32_t mb = shape.microbatches - 1; mb >= 0; --mb) {
        actions.push_back({ActionKind::kBackward, chunk * shape.ranks + rank, mb});
      }
    }
    ranks.push_back(std::move(actions));
  }
  return ranks;
}

}  // namespace stepsim
