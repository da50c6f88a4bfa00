// ZB-2P (ZB-H2 of Qi et al. 2023): twice 1F1B's memory lets the first ranks run ahead, so that the
// hole before the first backward is filled and weight gradients fill the rest. There is no closed
// order. This is the heuristic of the paper's section 3.1, for operations of equal length: forwards
// and input gradients of one micro-batch after the other are appended to every rank's list, weight
// gradients are put in front of them where the rank would wait or where memory is full, and the
// best of the four combinations of two yes-or-no choices is taken.
#include <algorithm>

#include "models/pipeline/families.h"

namespace stepsim {
namespace {

struct Choices {
  bool may_skip_forwards = false;  // of a rank that is two ahead of the next one
  bool always_fills = false;       // with a weight gradient that delays the rank
};

class Planner {
 public:
  Planner(std::int32_t ranks, std::int32_t microbatches, const Choices& choices)
      : m_(microbatches), live_limit_(2 * ranks), choices_(choices) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      ranks_.emplace_back();
      ranks_.back().forward_end.reserve(Count(microbatches));
      ranks_.back().input_end.reserve(Count(microbatches));
    }
  }

  void Plan() {
    WarmUp();
    for (std::int32_t i = 1; i < m_; ++i) {
      const std::vector<bool> wants_forward = ChooseForwards();
      for (std::size_t j = 0; j < ranks_.size(); ++j) {
        if (wants_forward[j]) AddForward(j);
      }
      for (std::size_t j = ranks_.size(); j-- > 0;) AddInputGradient(j);
    }
    for (Rank& rank : ranks_) {
      while (rank.weights < m_) AddWeightGradient(rank);
    }
  }

  // The longest time from a rank's first action to its last.
  std::int32_t LongestSpan() const {
    std::int32_t longest = 0;
    for (const Rank& rank : ranks_) longest = std::max(longest, rank.end - rank.begin);
    return longest;
  }

  RankOrders Take() {
    RankOrders orders;
    for (Rank& rank : ranks_) orders.push_back(std::move(rank.actions));
    return orders;
  }

 private:
  struct Rank {
    std::vector<Action> actions;
    std::vector<std::int32_t> forward_end, input_end;  // by micro-batch
    std::int32_t weights = 0;                          // weight gradients so far
    std::int32_t begin = 0, end = 0;
    std::int32_t idle = 0;  // since its first action

    std::int32_t forwards() const { return static_cast<std::int32_t>(forward_end.size()); }
    std::int32_t inputs() const { return static_cast<std::int32_t>(input_end.size()); }
    std::int32_t live() const { return forwards() - weights; }
    bool HasPending() const { return weights < inputs(); }
  };

  static std::size_t Count(std::int32_t number) { return static_cast<std::size_t>(number); }
  std::int32_t StageOf(const Rank& rank) const {
    return static_cast<std::int32_t>(&rank - ranks_.data());
  }

  std::int32_t MostIdle() const {
    std::int32_t most = 0;
    for (const Rank& rank : ranks_) most = std::max(most, rank.idle);
    return most;
  }

  void Append(Rank& rank, ActionKind kind, std::int32_t microbatch, std::int32_t ready) {
    const std::int32_t start = std::max(rank.end, ready);
    if (rank.actions.empty()) {
      rank.begin = start;
    } else {
      rank.idle += start - rank.end;
    }
    rank.end = start + 1;
    rank.actions.push_back({kind, StageOf(rank), microbatch});
  }

  void AddWeightGradient(Rank& rank) {
    Append(rank, ActionKind::kWeightGradient, rank.weights++, 0);
  }

  // Weight gradients that fit before `ready`; then one that does not, unless the wait is harmless
  // because another rank has more of them.
  void FillUntil(Rank& rank, std::int32_t ready) {
    while (rank.HasPending() && rank.end + 1 <= ready) AddWeightGradient(rank);
    if (!rank.HasPending() || rank.end >= ready) return;
    const bool is_harmless = ready - rank.end <= MostIdle() - rank.idle;
    if (!is_harmless || choices_.always_fills) AddWeightGradient(rank);
  }

  void AppendForward(std::size_t j) {
    Rank& rank = ranks_[j];
    const std::int32_t mb = rank.forwards();
    Append(rank, ActionKind::kForward, mb, j == 0 ? 0 : ranks_[j - 1].forward_end[Count(mb)]);
    rank.forward_end.push_back(rank.end);
  }

  void AddForward(std::size_t j) {
    Rank& rank = ranks_[j];
    while (rank.live() + 1 > live_limit_ && rank.HasPending()) AddWeightGradient(rank);
    if (j > 0) FillUntil(rank, ranks_[j - 1].forward_end[Count(rank.forwards())]);
    AppendForward(j);
  }

  void AppendInputGradient(std::size_t j) {
    Rank& rank = ranks_[j];
    const std::int32_t mb = rank.inputs();
    const bool is_last = j + 1 == ranks_.size();
    Append(rank, ActionKind::kInputGradient, mb, is_last ? 0 : ranks_[j + 1].input_end[Count(mb)]);
    rank.input_end.push_back(rank.end);
  }

  void AddInputGradient(std::size_t j) {
    Rank& rank = ranks_[j];
    if (j + 1 < ranks_.size()) FillUntil(rank, ranks_[j + 1].input_end[Count(rank.inputs())]);
    if (j == 0 && rank.forwards() == m_) {
      while (rank.HasPending()) AddWeightGradient(rank);
    }
    AppendInputGradient(j);
  }

  // The first micro-batch everywhere, and the forwards that fit before its backward comes back.
  void WarmUp() {
    for (std::size_t j = 0; j < ranks_.size(); ++j) AppendForward(j);
    std::vector<std::int32_t> extra(ranks_.size(), 0);
    std::int32_t gradient_at = ranks_.back().end + 1;
    for (std::size_t j = ranks_.size() - 1; j-- > 0;) {
      std::int32_t end = ranks_[j].end;
      while (1 + extra[j] < std::min(m_, live_limit_) && end + 1 <= gradient_at) {
        ++end;
        ++extra[j];
      }
      gradient_at = std::max(end, gradient_at) + 1;
    }
    for (std::size_t j = 1; j < extra.size(); ++j) {  // a rank is ahead of the next one
      while (extra[j] > 0 && extra[j] >= extra[j - 1] && 1 + extra[j] < m_) --extra[j];
    }
    for (std::size_t j = 0; j < ranks_.size(); ++j) {
      for (std::int32_t i = 0; i < extra[j]; ++i) AppendForward(j);
    }
    for (std::size_t j = ranks_.size(); j-- > 0;) AppendInputGradient(j);
  }

  std::vector<bool> ChooseForwards() const {
    std::vector<bool> wants(ranks_.size());
    for (std::size_t j = 0; j < ranks_.size(); ++j) wants[j] = WantsForward(j);
    for (std::size_t j = ranks_.size() - 1; j-- > 0;) wants[j] = wants[j] && wants[j + 1];
    return wants;
  }

  // Whether rank j runs a forward in this round: it may skip one that the next rank does not miss.
  bool WantsForward(std::size_t j) const {
    const Rank& rank = ranks_[j];
    if (rank.forwards() == m_) return false;
    if (!choices_.may_skip_forwards || j + 1 == ranks_.size()) return true;
    const Rank& next = ranks_[j + 1];
    if (rank.forwards() < next.forwards() + 2) return true;
    const std::int32_t needed_at = next.end + 2;  // after one more forward and backward there
    if (rank.end >= needed_at) return false;
    const std::int32_t over = std::max(0, rank.live() + 1 - live_limit_);
    const std::int32_t weights_first = std::min(over, rank.inputs() - rank.weights);
    if (rank.end + 1 + weights_first <= needed_at) return true;
    return needed_at - rank.end > MostIdle() - rank.idle;
  }

  std::int32_t m_;
  std::int32_t live_limit_;
  Choices choices_;
  std::vector<Rank> ranks_;
};

}  // namespace

RankOrders Zb2pOrder(const ScheduleShape& shape) {
  RankOrders best;
  std::int32_t shortest = 0;
  for (const bool may_skip : {true, false}) {
    for (const bool always_fills : {true, false}) {
      Planner planner(shape.ranks, shape.microbatches, {may_skip, always_fills});
      planner.Plan();
      const std::int32_t span = planner.LongestSpan();
      if (!best.empty() && span >= shortest) continue;
      shortest = span;
      best = planner.Take();
    }
  }
  return best;
}

}  // namespace stepsim
