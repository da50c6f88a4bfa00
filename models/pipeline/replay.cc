#include "models/pipeline/replay.h"

#include <algorithm>

namespace stepsim {
namespace {

constexpr double kNotYet = -1;

double TimeOf(ActionKind kind, const ChunkTimes& times) {
  switch (kind) {
    case ActionKind::kForward:
      return times.forward;
    case ActionKind::kBackward:
      return times.backward();
    case ActionKind::kInputGradient:
      return times.input_gradient;
    case ActionKind::kWeightGradient:
      return times.weight_gradient;
    default:
      return 0;  // communication is free
  }
}

class Replayer {
 public:
  Replayer(const PipelineSchedule& schedule, const ChunkTimes& times)
      : schedule_(schedule), times_(times), now_(schedule.ranks.size(), 0) {
    const auto cells = static_cast<std::size_t>(schedule.stages()) *
                       static_cast<std::size_t>(schedule.shape.microbatches);
    made_.resize(2 * cells, kNotYet);
    waiter_.resize(2 * cells, kNobody);
    replay_.ranks.resize(schedule.ranks.size());
  }

  ScheduleReplay Run() {
    std::vector<std::size_t> runnable;
    for (std::size_t rank = schedule_.ranks.size(); rank-- > 0;) runnable.push_back(rank);
    while (!runnable.empty()) {
      const std::size_t rank = runnable.back();
      runnable.pop_back();
      RunUntilItWaits(rank, runnable);
    }
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) Summarise(rank);
    for (RankReplay& rank : replay_.ranks) rank.idle = replay_.makespan - rank.busy;
    return std::move(replay_);
  }

 private:
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  std::size_t Slot(const Input& input) const {
    const auto cell = static_cast<std::size_t>(input.stage) *
                          static_cast<std::size_t>(schedule_.shape.microbatches) +
                      static_cast<std::size_t>(input.microbatch);
    return 2 * cell + (input.is_gradient ? 1 : 0);
  }

  void RunUntilItWaits(std::size_t rank, std::vector<std::size_t>& runnable) {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    RankReplay& result = replay_.ranks[rank];
    while (result.start.size() < actions.size()) {
      const std::size_t begin = result.start.size();
      std::size_t end = begin + 1;
      while (end < actions.size() && actions[end].overlaps_previous) ++end;
      double start = now_[rank], duration = 0;
      for (std::size_t i = begin; i < end; ++i) {
        duration += TimeOf(actions[i].kind, times_);
        for (const Input& input : InputsOf(actions[i], schedule_.stages())) {
          const std::size_t slot = Slot(input);
          if (made_[slot] == kNotYet) return void(waiter_[slot] = rank);
          start = std::max(start, made_[slot]);
        }
      }
      now_[rank] = start + duration;
      result.busy += duration;
      for (std::size_t i = begin; i < end; ++i) {
        result.start.push_back(start);
        result.end.push_back(now_[rank]);
        Publish(actions[i], now_[rank], runnable);
      }
    }
  }

  void Publish(const Action& action, double at, std::vector<std::size_t>& runnable) {
    const bool is_forward = action.kind == ActionKind::kForward;
    if (!is_forward && !MakesInputGradient(action.kind)) return;
    const std::size_t slot = Slot({!is_forward, action.stage, action.microbatch});
    made_[slot] = at;
    if (waiter_[slot] != kNobody) runnable.push_back(waiter_[slot]);
  }

  void Summarise(std::size_t rank) {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    RankReplay& result = replay_.ranks[rank];
    replay_.is_complete = replay_.is_complete && result.start.size() == actions.size();
    if (result.start.empty()) return;
    result.span = result.end.back() - result.start.front();
    replay_.makespan = std::max(replay_.makespan, result.end.back());
    std::int32_t live = 0, live_until_input = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kForward) ++live, ++live_until_input;
      result.peak_live = std::max(result.peak_live, live);
      result.peak_until_input_gradient =
          std::max(result.peak_until_input_gradient, live_until_input);
      if (MakesWeightGradient(action.kind)) --live;
      if (MakesInputGradient(action.kind)) --live_until_input;
    }
  }

  const PipelineSchedule& schedule_;
  ChunkTimes times_;
  std::vector<double> now_;          // by rank
  std::vector<double> made_;         // by slot: when its activation or gradient is there
  std::vector<std::size_t> waiter_;  // by slot: the rank that waits for it
  ScheduleReplay replay_;
};

}  // namespace

Inputs InputsOf(const Action& action, std::int32_t stages) {
  const std::int32_t s = action.stage, mb = action.microbatch;
  if (action.kind == ActionKind::kForward) return {{{{false, s - 1, mb}}}, s == 0 ? 0u : 1u};
  if (action.kind == ActionKind::kWeightGradient) return {{{{true, s, mb}}}, 1};
  if (!MakesInputGradient(action.kind)) return {};
  return {{{{false, s, mb}, {true, s + 1, mb}}}, s + 1 == stages ? 1u : 2u};
}

double ScheduleReplay::longest_span() const {
  double longest = 0;
  for (const RankReplay& rank : ranks) longest = std::max(longest, rank.span);
  return longest;
}

ScheduleReplay Replay(const PipelineSchedule& schedule, const ChunkTimes& times) {
  return Replayer(schedule, times).Run();
}

}  // namespace stepsim
