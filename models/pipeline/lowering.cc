#include "models/pipeline/lowering.h"

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {
namespace {

using Actions = std::vector<Action>;

std::size_t EndOfOperation(const Actions& actions, std::size_t at) {
  for (++at; at < actions.size() && actions[at].overlaps_previous;) ++at;
  return at;
}

bool Contains(const std::vector<std::int32_t>& stages, std::int32_t stage) {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

// For each action, the next `count` distinct stages from it on, in the order in which they come.
std::vector<std::vector<std::int32_t>> NextStages(const Actions& actions, std::size_t count) {
  std::vector<std::vector<std::int32_t>> next(actions.size() + 1);
  for (std::size_t at = actions.size(); at-- > 0;) {
    next[at].push_back(actions[at].stage);
    for (const std::int32_t stage : next[at + 1]) {
      if (next[at].size() < count && stage != actions[at].stage) next[at].push_back(stage);
    }
  }
  return next;
}

Actions AddUnshards(const Actions& actions, std::int32_t count) {
  const auto next = NextStages(actions, static_cast<std::size_t>(count));
  std::vector<std::int32_t> active;  // ascending
  Actions lowered;
  const auto reshard_all_but = [&](const std::vector<std::int32_t>& needed) {
    for (std::size_t i = 0; i < active.size();) {
      if (Contains(needed, active[i])) {
        ++i;
        continue;
      }
      lowered.push_back({ActionKind::kReshard, active[i]});
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(i));
    }
  };
  for (std::size_t at = 0; at < actions.size();) {
    reshard_all_but(next[at]);
    for (const std::int32_t stage : next[at]) {
      if (Contains(active, stage)) continue;
      lowered.push_back({ActionKind::kUnshard, stage});
      active.insert(std::upper_bound(active.begin(), active.end(), stage), stage);
    }
    const std::size_t end = EndOfOperation(actions, at);
    for (; at < end; ++at) lowered.push_back(actions[at]);
  }
  reshard_all_but(next[actions.size()]);
  return lowered;
}

Actions AddReductions(const Actions& actions, std::int32_t stages) {
  std::vector<std::size_t> last(static_cast<std::size_t>(stages), actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (MakesWeightGradient(actions[i].kind)) last[static_cast<std::size_t>(actions[i].stage)] = i;
  }
  Actions lowered;
  for (std::size_t at = 0; at < actions.size();) {
    const std::size_t begin = at;
    for (const std::size_t end = EndOfOperation(actions, at); at < end; ++at) {
      lowered.push_back(actions[at]);
    }
    for (std::size_t i = begin; i < at; ++i) {
      const Action& a = actions[i];
      if (!MakesWeightGradient(a.kind) || last[static_cast<std::size_t>(a.stage)] != i) continue;
      lowered.push_back({ActionKind::kReduceGrad, a.stage});
    }
  }
  return lowered;
}

// Takes one operation after the other from every rank in turn, as soon as its inputs have arrived,
// and hands each receiver its receive at the moment of the send.
class Sender {
 public:
  explicit Sender(const PipelineSchedule& schedule)
      : schedule_(schedule), next_(schedule.ranks.size(), 0), lowered_(schedule.ranks.size()) {
    const auto cells = static_cast<std::size_t>(schedule.stages()) *
                       static_cast<std::size_t>(schedule.shape.microbatches);
    has_activation_.resize(cells);
    has_gradient_.resize(cells);
  }

  std::vector<Actions> Run() {
    bool has_progress = true;
    while (has_progress) {
      has_progress = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) {
        if (next_[rank] < schedule_.ranks[rank].size()) has_progress |= Advance(rank);
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      SIM_CHECK(next_[rank] == schedule_.ranks[rank].size(), "the schedule has no deadlock");
    }
    return std::move(lowered_);
  }

 private:
  std::size_t Cell(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) *
               static_cast<std::size_t>(schedule_.shape.microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  bool IsReady(const Action& a) const {
    if (a.kind == ActionKind::kForward) {
      return a.stage == 0 || has_activation_[Cell(a.stage, a.microbatch)];
    }
    if (MakesInputGradient(a.kind)) {
      return a.stage + 1 == schedule_.stages() || has_gradient_[Cell(a.stage, a.microbatch)];
    }
    return true;
  }

  // The next operation of the rank, if it is ready.
  bool Advance(std::size_t rank) {
    const Actions& actions = schedule_.ranks[rank];
    const std::size_t begin = next_[rank], end = EndOfOperation(actions, begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (!IsReady(actions[i])) return false;
    }
    for (std::size_t i = begin; i < end; ++i) lowered_[rank].push_back(actions[i]);
    for (std::size_t i = begin; i < end; ++i) Send(rank, actions[i]);
    next_[rank] = end;
    return true;
  }

  void Send(std::size_t rank, const Action& a) {
    if (a.kind == ActionKind::kForward && a.stage + 1 < schedule_.stages()) {
      has_activation_[Cell(a.stage + 1, a.microbatch)] = true;
      Transfer(rank, a, a.stage + 1, ActionKind::kSendForward, ActionKind::kRecvForward);
    } else if (MakesInputGradient(a.kind) && a.stage > 0) {
      has_gradient_[Cell(a.stage - 1, a.microbatch)] = true;
      Transfer(rank, a, a.stage - 1, ActionKind::kSendBackward, ActionKind::kRecvBackward);
    }
  }

  void Transfer(std::size_t rank, const Action& a, std::int32_t to, ActionKind send,
                ActionKind receive) {
    const auto peer = static_cast<std::size_t>(schedule_.RankOf(to, a.microbatch));
    if (peer == rank) return;
    lowered_[rank].push_back({send, a.stage, a.microbatch});
    lowered_[peer].push_back({receive, to, a.microbatch});
  }

  const PipelineSchedule& schedule_;
  std::vector<std::size_t> next_;
  std::vector<Actions> lowered_;
  std::vector<bool> has_activation_, has_gradient_;  // by stage and micro-batch
};

}  // namespace

PipelineSchedule Lower(PipelineSchedule schedule, const LoweringOptions& options) {
  for (Actions& actions : schedule.ranks) {
    if (options.unsharded_stages > 0) actions = AddUnshards(actions, options.unsharded_stages);
    if (options.reduces_gradients) actions = AddReductions(actions, schedule.stages());
  }
  if (options.sends) schedule.ranks = Sender(schedule).Run();
  return schedule;
}

PipelineSchedule MergeBackwards(PipelineSchedule schedule) {
  schedule.splits_backward = false;
  for (Actions& actions : schedule.ranks) {
    Actions merged;
    for (const Action& a : actions) {
      const bool merges = a.kind == ActionKind::kWeightGradient && !merged.empty() &&
                          merged.back().kind == ActionKind::kInputGradient &&
                          merged.back().stage == a.stage &&
                          merged.back().microbatch == a.microbatch;
      if (merges) {
        merged.back().kind = ActionKind::kBackward;
      } else {
        merged.push_back(a);
      }
    }
    actions = std::move(merged);
    for (const Action& a : actions) {
      schedule.splits_backward |= a.kind == ActionKind::kWeightGradient;
    }
  }
  return schedule;
}

PipelineSchedule ComputeOnly(PipelineSchedule schedule) {
  for (Actions& actions : schedule.ranks) {
    const auto is_communication = [](const Action& a) { return !IsCompute(a.kind); };
    actions.erase(std::remove_if(actions.begin(), actions.end(), is_communication), actions.end());
  }
  return schedule;
}

}  // namespace stepsim
