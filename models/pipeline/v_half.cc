// V-Half and V-Min (Qi et al. 2024, "Pipeline parallelism with controllable memory"): ZB-V's
// placement with less memory, and more of a bubble. A micro-batch passes the ranks in a fixed
// pattern of slots, one operation long each, and the next one follows six slots later (two
// forwards, two input and two weight gradients per rank); the pattern is chosen so that no two ever
// meet. How far apart a rank's forward and backward lie in it is how many micro-batches the rank
// stores.
//
// sail-sg's scheduler then moves operations of both ends into earlier holes, which saves at most
// three operations' time; this does not.
#include <algorithm>
#include <array>
#include <deque>

#include "models/pipeline/families.h"

namespace stepsim {
namespace {

constexpr std::int32_t kPeriod = 6;

// The slots of one micro-batch on one rank: forward down the V, forward up it, and the input
// gradients back.
using Pattern = std::array<std::int32_t, 4>;

Pattern MinPattern(std::int32_t p, std::int32_t rank) {
  const std::int32_t gap = p % 3 == 0 ? 2 : 0;  // else two operations would meet
  return {rank, 2 * p - 1 - rank, 2 * p + gap + rank, 4 * p - 1 + gap - rank};
}

Pattern HalfPattern(std::int32_t p, std::int32_t rank) {
  const std::int32_t gap = p % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * p - 2 - rank, 3 * p - 1 + gap + 2 * rank, 6 * p - 2 + gap - rank};
}

// The rank's forwards and input gradients, each in its slot.
std::vector<Action> FillSlots(const Pattern& pattern, const ScheduleShape& shape,
                              std::int32_t rank) {
  const std::int32_t down = rank, up = 2 * shape.ranks - 1 - rank;
  const std::array<Action, 4> actions = {{{ActionKind::kForward, down},
                                          {ActionKind::kForward, up},
                                          {ActionKind::kInputGradient, up},
                                          {ActionKind::kInputGradient, down}}};
  const std::int32_t slots = pattern[3] + kPeriod * (shape.microbatches - 1) + 1;
  std::vector<Action> by_slot(static_cast<std::size_t>(slots));
  for (std::int32_t mb = 0; mb < shape.microbatches; ++mb) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      Action& slot = by_slot[static_cast<std::size_t>(pattern[i] + kPeriod * mb)];
      slot = actions[i];
      slot.microbatch = mb;
    }
  }
  return by_slot;
}

RankOrders Order(const ScheduleShape& shape, Pattern (*pattern)(std::int32_t, std::int32_t)) {
  RankOrders ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action> order;
    std::deque<Action> pending;  // weight gradients, which go into the empty slots
    const auto run_oldest = [&] {
      order.push_back(pending.front());
      pending.pop_front();
    };
    for (const Action& action : FillSlots(pattern(shape.ranks, rank), shape, rank)) {
      if (action.microbatch < 0) {
        if (!pending.empty()) run_oldest();
        continue;
      }
      order.push_back(action);
      if (action.kind == ActionKind::kInputGradient) {
        pending.push_back({ActionKind::kWeightGradient, action.stage, action.microbatch});
      }
    }
    while (!pending.empty()) run_oldest();
    ranks.push_back(std::move(order));
  }
  return ranks;
}

}  // namespace

RankOrders VHalfOrder(const ScheduleShape& shape) { return Order(shape, HalfPattern); }

RankOrders VMinOrder(const ScheduleShape& shape) { return Order(shape, MinPattern); }

}  // namespace stepsim
