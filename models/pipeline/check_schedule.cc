#include "models/pipeline/check_schedule.h"

#include <algorithm>
#include <array>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostProblems = 20;

std::size_t Size(std::int32_t number) { return static_cast<std::size_t>(number); }

// Which of F, I, W a cell (stage, micro-batch) has seen; a B is both I and W.
class CellCounter {
 public:
  explicit CellCounter(const PipelineSchedule& schedule)
      : schedule_(schedule), seen_(Size(schedule.stages()) * Size(schedule.shape.microbatches)) {}

  std::vector<ScheduleProblem> Run() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < schedule_.ranks[rank].size(); ++i) Count(rank, i);
    }
    for (std::int32_t stage = 0; stage < schedule_.stages(); ++stage) {
      for (std::int32_t mb = 0; mb < schedule_.shape.microbatches; ++mb) CheckComplete(stage, mb);
    }
    return std::move(problems_);
  }

 private:
  using Seen = std::array<bool, 3>;  // F, I, W
  static constexpr std::array kKinds = {ActionKind::kForward, ActionKind::kInputGradient,
                                        ActionKind::kWeightGradient};

  Seen& At(std::int32_t stage, std::int32_t mb) {
    return seen_[Size(stage) * Size(schedule_.shape.microbatches) + Size(mb)];
  }

  static Seen Makes(ActionKind kind) {
    return {kind == ActionKind::kForward, MakesInputGradient(kind), MakesWeightGradient(kind)};
  }

  void Count(std::size_t rank, std::size_t index) {
    const Action& a = schedule_.ranks[rank][index];
    if (!IsCompute(a.kind)) return;
    const std::int32_t home = schedule_.RankOf(a.stage, a.microbatch);
    if (Size(home) != rank) {
      return Report(rank, index,
                    "found " + ToString(a) + " on rank " + std::to_string(rank) +
                        ", allowed: rank " + std::to_string(home));
    }
    const Seen makes = Makes(a.kind);
    Seen& seen = At(a.stage, a.microbatch);
    for (std::size_t i = 0; i < makes.size(); ++i) {
      if (makes[i] && seen[i]) {
        return Report(rank, index, "found " + ToString(a) + " a second time");
      }
    }
    for (std::size_t i = 0; i < makes.size(); ++i) seen[i] = seen[i] || makes[i];
  }

  void CheckComplete(std::int32_t stage, std::int32_t mb) {
    const Seen& seen = At(stage, mb);
    const auto rank = Size(schedule_.RankOf(stage, mb));
    const auto report = [&](ActionKind kind) {
      Report(rank, ScheduleProblem::kNone,
             "rank " + std::to_string(rank) + " never runs " + ToString({kind, stage, mb}));
    };
    if (!seen[1] && !seen[2] && !schedule_.splits_backward) {
      if (!seen[0]) report(ActionKind::kForward);
      return report(ActionKind::kBackward);
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) report(kKinds[i]);
    }
  }

  void Report(std::size_t rank, std::size_t index, std::string message) {
    if (problems_.size() < kMostProblems) problems_.push_back({rank, index, std::move(message)});
  }

  const PipelineSchedule& schedule_;
  std::vector<Seen> seen_;
  std::vector<ScheduleProblem> problems_;
};

// Which rank each stuck rank waits for, and the words for it.
class StuckRanks {
 public:
  StuckRanks(const PipelineSchedule& schedule, const ScheduleReplay& replay)
      : schedule_(schedule), replay_(replay) {}

  std::string Describe() const {
    std::size_t rank = 0;
    while (!IsStuck(rank)) ++rank;
    std::vector<std::size_t> path;
    while (std::find(path.begin(), path.end(), rank) == path.end()) {
      path.push_back(rank);
      rank = RankOf(MissingInput(rank).first);
    }
    std::string text;
    for (auto it = std::find(path.begin(), path.end(), rank); it != path.end(); ++it) {
      text += (text.empty() ? "" : "\n") + Line(*it);
    }
    return text;
  }

 private:
  bool IsStuck(std::size_t rank) const { return Next(rank) < schedule_.ranks[rank].size(); }
  std::size_t Next(std::size_t rank) const { return replay_.ranks[rank].start.size(); }
  std::size_t RankOf(const Action& a) const {
    return Size(schedule_.RankOf(a.stage, a.microbatch));
  }

  // Where the action that makes `input` stands in its rank's list.
  std::size_t Find(const Input& input, std::size_t rank) const {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    const auto makes_it = [&input](const Action& a) {
      const bool makes =
          input.is_gradient ? MakesInputGradient(a.kind) : a.kind == ActionKind::kForward;
      return makes && a.stage == input.stage && a.microbatch == input.microbatch;
    };
    return static_cast<std::size_t>(std::find_if(actions.begin(), actions.end(), makes_it) -
                                    actions.begin());
  }

  // An action that has not run and that the next operation of a stuck rank needs; who needs it.
  std::pair<Action, Action> MissingInput(std::size_t rank) const {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    std::size_t i = Next(rank);
    do {
      for (const Input& input : InputsOf(actions[i], schedule_.stages())) {
        const std::size_t maker = Size(schedule_.RankOf(input.stage, input.microbatch));
        const std::size_t at = Find(input, maker);
        if (at >= Next(maker)) return {schedule_.ranks[maker][at], actions[i]};
      }
      ++i;
    } while (i < actions.size() && actions[i].overlaps_previous);
    SIM_CHECK(false, "a stuck rank waits for something");
    return {};
  }

  std::string Line(std::size_t rank) const {
    const auto [missing, waiting] = MissingInput(rank);
    const std::size_t peer = RankOf(missing);
    const Action& in_front = schedule_.ranks[peer][Next(peer)];
    std::string line = "rank " + std::to_string(rank) + " at " + ToString(waiting) + " waits for " +
                       ToString(missing) + " on rank " + std::to_string(peer);
    if (!(in_front == missing)) line += ", which is behind " + ToString(in_front);
    return line;
  }

  const PipelineSchedule& schedule_;
  const ScheduleReplay& replay_;
};

}  // namespace

std::vector<ScheduleProblem> InvalidActions(const PipelineSchedule& schedule) {
  return CellCounter(schedule).Run();
}

std::string WaitCycle(const PipelineSchedule& schedule) {
  const ScheduleReplay replay = Replay(schedule);
  return replay.is_complete ? "" : StuckRanks(schedule, replay).Describe();
}

bool IsWorkConserving(const PipelineSchedule& schedule, const ScheduleReplay& replay) {
  const auto microbatches = Size(schedule.shape.microbatches);
  std::vector<std::array<double, 2>> made(Size(schedule.stages()) * microbatches);
  const auto at = [&](std::int32_t stage, std::int32_t mb) -> std::array<double, 2>& {
    return made[Size(stage) * microbatches + Size(mb)];
  };
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action& a = schedule.ranks[rank][i];
      if (a.kind == ActionKind::kForward) at(a.stage, a.microbatch)[0] = replay.ranks[rank].end[i];
      if (MakesInputGradient(a.kind)) at(a.stage, a.microbatch)[1] = replay.ranks[rank].end[i];
    }
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action>& actions = schedule.ranks[rank];
    double before = 0;
    for (std::size_t i = 0; i < actions.size();) {
      double ready = before;
      const std::size_t begin = i;
      do {
        for (const Input& input : InputsOf(actions[i], schedule.stages())) {
          ready = std::max(ready, at(input.stage, input.microbatch)[input.is_gradient ? 1 : 0]);
        }
        ++i;
      } while (i < actions.size() && actions[i].overlaps_previous);
      if (replay.ranks[rank].start[begin] != ready) return false;
      before = replay.ranks[rank].end[begin];
    }
  }
  return true;
}

}  // namespace stepsim
