// V-Half and V-Min (Qi et al. 2024, "Pipeline parallelism with controllable memory"): ZB-V's
// placement with less memory, and more of a bubble. A micro-batch passes the ranks in a fixed
// pattern of slots, one operation long each, and the next one follows six slots later (two
// forwards, two input and two weight gradients per rank); the pattern is chosen so that no two ever
// meet. How far apart a rank's forward and backward lie in it is how many micro-batches the rank
// stores. At both ends, where the pattern is not full, operations then move into earlier holes.
// (sail-sg's scheduler repeats this for the drain, which helps where there are about as many
// micro-batches as ranks.)
#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

#include "models/pipeline/families.h"

namespace stepsim {
namespace {

constexpr std::int32_t kPeriod = 6;
constexpr std::int32_t kMostRanksOfPlan = 256;  // moving takes time with the cube of the ranks

// What a rank does with a micro-batch, in this order; down the V is its first chunk.
enum Step : std::size_t { kForwardDown, kForwardUp, kInputUp, kInputDown, kWeight };
using Pattern = std::array<std::int32_t, 4>;  // the slot of each step but the last

Pattern MinPattern(std::int32_t p, std::int32_t rank) {
  const std::int32_t gap = p % 3 == 0 ? 2 : 0;  // else two operations would meet
  return {rank, 2 * p - 1 - rank, 2 * p + gap + rank, 4 * p - 1 + gap - rank};
}

Pattern HalfPattern(std::int32_t p, std::int32_t rank) {
  const std::int32_t gap = p % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * p - 2 - rank, 3 * p - 1 + gap + 2 * rank, 6 * p - 2 + gap - rank};
}

std::size_t Size(std::int32_t number) { return static_cast<std::size_t>(number); }

// The slots of one rank. Weight gradients are counted through, of both chunks together: the k-th is
// that of the k-th input gradient.
struct RankSlots {
  std::array<std::vector<std::int32_t>, 5> slot_of;  // by step and micro-batch (or number)
  std::vector<bool> is_taken;                        // by slot
  std::vector<std::int32_t> live;                    // stored chunks from each slot on
  std::vector<std::int32_t> input_slots;             // of input gradients in their place, ascending

  std::int32_t slots() const { return static_cast<std::int32_t>(is_taken.size()); }
};

RankSlots FillSlots(const Pattern& pattern, std::int32_t microbatches) {
  RankSlots rank;
  const std::int32_t begun = kPeriod * (microbatches - 1) + pattern[kInputDown] + 1;
  rank.is_taken.resize(Size(begun + 2 * microbatches));  // room for every weight gradient
  std::vector<std::int32_t> inputs;
  for (std::size_t step = kForwardDown; step <= kInputDown; ++step) {
    for (std::int32_t mb = 0; mb < microbatches; ++mb) {
      const std::int32_t slot = pattern[step] + kPeriod * mb;
      rank.slot_of[step].push_back(slot);
      rank.is_taken[Size(slot)] = true;
      if (step >= kInputUp) inputs.push_back(slot);
    }
  }
  std::sort(inputs.begin(), inputs.end());
  std::int32_t slot = 0;
  for (const std::int32_t input : inputs) {
    slot = std::max(slot, input) + 1;
    while (rank.is_taken[Size(slot)]) ++slot;
    rank.slot_of[kWeight].push_back(slot);
  }
  for (const std::int32_t weight : rank.slot_of[kWeight]) rank.is_taken[Size(weight)] = true;
  return rank;
}

void CountLive(RankSlots& rank) {
  rank.live.assign(rank.is_taken.size(), 0);
  for (const std::size_t step : {kForwardDown, kForwardUp}) {
    for (const std::int32_t slot : rank.slot_of[step]) ++rank.live[Size(slot)];
  }
  for (const std::int32_t slot : rank.slot_of[kWeight]) --rank.live[Size(slot)];
  for (std::size_t i = 1; i < rank.live.size(); ++i) rank.live[i] += rank.live[i - 1];
}

class SlotPlan {
 public:
  SlotPlan(const ScheduleShape& shape, Pattern (*pattern)(std::int32_t, std::int32_t))
      : p_(shape.ranks), m_(shape.microbatches) {
    for (std::int32_t rank = 0; rank < p_; ++rank) {
      ranks_.push_back(FillSlots(pattern(p_, rank), m_));
      CountLive(ranks_.back());
      const std::vector<std::int32_t>& live = ranks_.back().live;
      live_limit_ = std::max(live_limit_, *std::max_element(live.begin(), live.end()));
    }
  }

  // Before rank 0 has finished its first micro-batch and after it has begun its last.
  void Compact() {
    const std::int32_t full = ranks_[0].slot_of[kInputDown].front();
    const std::int32_t drains = ranks_[0].slot_of[kForwardDown].back();
    for (const auto& [slot, rank, step, number] : InOrder()) {
      const bool is_fixed = slot >= full && slot <= drains;
      Place(ranks_[rank], step, number, is_fixed ? slot : EarliestSlot(rank, step, number));
    }
  }

  RankOrders Orders() const {
    RankOrders orders;
    for (std::int32_t rank = 0; rank < p_; ++rank) orders.push_back(OrderOf(rank));
    return orders;
  }

 private:
  using Item = std::tuple<std::int32_t, std::size_t, std::size_t, std::size_t>;

  // Slot, rank, step and micro-batch (or number) of every operation, ascending; all are lifted.
  std::vector<Item> InOrder() {
    std::vector<Item> items;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t step = 0; step <= kWeight; ++step) {
        const std::vector<std::int32_t>& slots = ranks_[rank].slot_of[step];
        for (std::size_t i = 0; i < slots.size(); ++i) items.emplace_back(slots[i], rank, step, i);
      }
      ranks_[rank].is_taken.assign(ranks_[rank].is_taken.size(), false);
    }
    std::sort(items.begin(), items.end());
    return items;
  }

  // The last slot of what the operation needs; -1: nothing.
  std::int32_t InputSlot(std::size_t rank, std::size_t step, std::size_t number) const {
    const RankSlots& own = ranks_[rank];
    std::int32_t slot = number > 0 ? own.slot_of[step][number - 1] : -1;
    if (step == kWeight) return std::max(slot, own.input_slots[number]);
    if (step > 0) slot = std::max(slot, own.slot_of[step - 1][number]);
    const bool comes_from_before = step == kForwardDown || step == kInputUp;
    if (comes_from_before && rank > 0) {
      slot = std::max(slot, ranks_[rank - 1].slot_of[step][number]);
    } else if (!comes_from_before && rank + 1 < ranks_.size()) {
      slot = std::max(slot, ranks_[rank + 1].slot_of[step][number]);
    }
    return slot;
  }

  // The earliest free slot behind its inputs; for a forward, from which on memory has room for it.
  std::int32_t EarliestSlot(std::size_t rank, std::size_t step, std::size_t number) const {
    const RankSlots& own = ranks_[rank];
    const bool stores = step <= kForwardUp;
    const std::int32_t after = InputSlot(rank, step, number);
    std::int32_t best = own.slot_of[step][number];
    for (std::int32_t slot = best - 1; slot > after; --slot) {
      if (stores && own.live[Size(slot)] >= live_limit_) break;
      if (!own.is_taken[Size(slot)]) best = slot;
    }
    return best;
  }

  static void Place(RankSlots& rank, std::size_t step, std::size_t number, std::int32_t slot) {
    std::int32_t& place = rank.slot_of[step][number];
    if (step <= kForwardUp || step == kWeight) {
      const std::int32_t change = step == kWeight ? -1 : 1;
      for (std::int32_t i = slot; i < place; ++i) rank.live[Size(i)] += change;
    } else {
      auto& inputs = rank.input_slots;
      inputs.insert(std::upper_bound(inputs.begin(), inputs.end(), slot), slot);
    }
    rank.is_taken[Size(slot)] = true;
    place = slot;
  }

  std::vector<Action> OrderOf(std::int32_t rank) const {
    const RankSlots& own = ranks_[Size(rank)];
    const std::int32_t up = 2 * p_ - 1 - rank;
    constexpr std::array kKinds = {ActionKind::kForward, ActionKind::kForward,
                                   ActionKind::kInputGradient, ActionKind::kInputGradient,
                                   ActionKind::kWeightGradient};
    std::vector<Action> by_slot(Size(own.slots()), Action{ActionKind::kUnshard});
    for (std::size_t step = 0; step <= kWeight; ++step) {
      const bool is_down = step == kForwardDown || step == kInputDown;
      std::int32_t mb = 0;
      for (const std::int32_t slot : own.slot_of[step]) {
        by_slot[Size(slot)] = {kKinds[step], is_down ? rank : up, mb++};
      }
    }
    std::vector<Action> order;
    std::deque<Action> pending;
    for (const Action& action : by_slot) {
      if (action.microbatch < 0) continue;  // a hole
      if (action.kind == ActionKind::kWeightGradient) {
        order.push_back(pending.front());
        pending.pop_front();
        continue;
      }
      order.push_back(action);
      if (action.kind == ActionKind::kInputGradient) {
        pending.push_back({ActionKind::kWeightGradient, action.stage, action.microbatch});
      }
    }
    return order;
  }

  std::int32_t p_, m_;
  std::int32_t live_limit_ = 0;
  std::vector<RankSlots> ranks_;
};

RankOrders Order(const ScheduleShape& shape, Pattern (*pattern)(std::int32_t, std::int32_t)) {
  SlotPlan plan(shape, pattern);
  plan.Compact();
  return plan.Orders();
}

}  // namespace

ShapeProblem SlotPlanRule(const ScheduleShape& shape) {
  if (shape.ranks > kMostRanksOfPlan) return {&ScheduleShape::ranks, "from 1 to 256"};
  return TwoChunksRule(shape);
}

RankOrders VHalfOrder(const ScheduleShape& shape) { return Order(shape, HalfPattern); }

RankOrders VMinOrder(const ScheduleShape& shape) { return Order(shape, MinPattern); }

}  // namespace stepsim
