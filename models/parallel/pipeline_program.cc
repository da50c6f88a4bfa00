#include "models/parallel/pipeline_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "models/pipeline/lowering.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::int32_t kNone = -1;

bool IsForward(const Action& action) { return action.kind == ActionKind::kForward; }

// The order of one rank while it is being written.
class RankWriter {
 public:
  RankWriter(const PipelineSchedule& schedule, std::int32_t rank)
      : schedule_(schedule), rank_(rank) {}

  std::vector<PipelineInstruction> Take() && { return std::move(out_); }

  void Compute(const Action& action) { out_.push_back({PipelineOp::kCompute, action, {}}); }
  void Add(PipelineOp op, std::int32_t stage = 0) { out_.push_back({op, {.stage = stage}, {}}); }

  // Returns the transfer's number; kNone when there is nothing to move.
  std::int32_t Transfer(std::vector<StageMove> moves, std::int32_t queue) {
    if (moves.empty()) return kNone;
    PipelineInstruction instruction{PipelineOp::kTransfer, {}, std::move(moves)};
    const StageMove& move = instruction.moves.front();
    const bool is_below =
        schedule_.RankOf(move.edge, move.microbatch) == rank_ && move.is_send != move.is_backward;
    instruction.peer = schedule_.RankOf(is_below ? move.edge + 1 : move.edge, move.microbatch);
    instruction.queue = queue;
    instruction.transfer = transfers_;
    out_.push_back(std::move(instruction));
    return transfers_++;
  }
  void Wait(std::int32_t transfer) {
    if (transfer == kNone) return;
    out_.push_back({PipelineOp::kWait, {}, {}});
    out_.back().transfer = transfer;
  }

  // What an action's tensor has to travel, before it and after it; none on one rank and at the
  // ends.
  std::vector<StageMove> Input(const Action& action) const { return MovesOf(action, false); }
  std::vector<StageMove> Output(const Action& action) const { return MovesOf(action, true); }

 private:
  std::vector<StageMove> MovesOf(const Action& action, bool is_output) const {
    const bool is_backward = !IsForward(action);
    if (action.kind == ActionKind::kWeightGradient) return {};
    const std::int32_t other = action.stage + (is_output != is_backward ? 1 : -1);
    if (other < 0 || other >= schedule_.stages()) return {};
    if (schedule_.RankOf(other, action.microbatch) == rank_) return {};
    return {{is_backward, std::min(other, action.stage), action.microbatch, is_output}};
  }

  const PipelineSchedule& schedule_;
  std::int32_t rank_;
  std::int32_t transfers_ = 0;
  std::vector<PipelineInstruction> out_;
};

// Behind the action at `begin` and those that are one operation with it.
std::size_t GroupEnd(const std::vector<Action>& actions, std::size_t begin, bool runs_pairs) {
  std::size_t end = begin + 1;
  while (runs_pairs && end < actions.size() && actions[end].overlaps_previous) ++end;
  return end;
}

std::vector<StageMove> Together(std::vector<StageMove> a, const std::vector<StageMove>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr std::int32_t kGroupQueue = 0;

// By micro-batch of a pass: that of the pass in the other direction right behind it, else kNone.
struct Turns {
  std::vector<std::int32_t> behind_forward, behind_backward;
};

Turns TurnsOf(const PipelineSchedule& schedule, std::int32_t rank) {
  const std::vector<std::int32_t> none(static_cast<std::size_t>(schedule.shape.microbatches),
                                       kNone);
  Turns turns{none, none};
  if (rank < 0 || rank >= schedule.shape.ranks) return turns;
  const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
    if (IsForward(actions[i]) == IsForward(actions[i + 1])) continue;
    auto& behind = IsForward(actions[i]) ? turns.behind_forward : turns.behind_backward;
    behind[static_cast<std::size_t>(actions[i].microbatch)] = actions[i + 1].microbatch;
  }
  return turns;
}

// Ranks with one chunk: when a rank turns from one direction to the other, what it has made goes to
// the neighbour from which its next input comes. One call has both if the neighbour, too, makes
// the one and needs the other next. With fewer micro-batches than ranks, or all forwards first, it
// receives the last forward long before it has the first gradient.
class SharedCalls {
 public:
  SharedCalls(const PipelineSchedule& schedule, std::int32_t rank)
      : above_(TurnsOf(schedule, rank - 1)), below_(TurnsOf(schedule, rank + 1)) {}

  bool Joins(const Action& action, const Action& next) const {
    if (IsForward(action) == IsForward(next)) return false;
    const auto& behind = IsForward(action) ? below_.behind_backward : above_.behind_forward;
    return behind[static_cast<std::size_t>(next.microbatch)] == action.microbatch;
  }

 private:
  Turns above_, below_;
};

// ---- PyTorch ----

// Each transfer a call of its own: received when the schedule's lowering says, waited for by
// compute right before the action that needs it; sends at the end of the step. Two ranks have a
// communicator for what is between them, or (`has_one_queue`) all share one, in which a receive
// that is posted before its tensor is made holds up what is issued behind it.
std::vector<PipelineInstruction> LoweredRank(const PipelineSchedule& lowered, std::int32_t rank,
                                             bool has_one_queue, bool runs_pairs) {
  RankWriter out(lowered, rank);
  using Key = std::tuple<bool, std::int32_t, std::int32_t>;
  std::map<Key, std::int32_t> received;
  std::vector<std::int32_t> sends;
  const auto post = [&](const Action& action, bool is_backward, std::int32_t edge, bool is_send) {
    const std::int32_t far_stage = is_send != is_backward ? edge + 1 : edge;
    const std::int32_t peer = lowered.RankOf(far_stage, action.microbatch);
    const std::int32_t queue = has_one_queue ? kGroupQueue : 1 + peer;
    const std::int32_t number =
        out.Transfer({{is_backward, edge, action.microbatch, is_send}}, queue);
    if (is_send) {
      sends.push_back(number);
    } else {
      received[{is_backward, edge, action.microbatch}] = number;
    }
  };
  const std::vector<Action>& actions = lowered.ranks[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0, end = 0; i < actions.size(); i = end) {
    const Action& action = actions[i];
    end = GroupEnd(actions, i, runs_pairs);
    switch (action.kind) {
      case ActionKind::kSendForward:
        post(action, false, action.stage, true);
        break;
      case ActionKind::kRecvForward:
        post(action, false, action.stage - 1, false);
        break;
      case ActionKind::kSendBackward:
        post(action, true, action.stage - 1, true);
        break;
      case ActionKind::kRecvBackward:
        post(action, true, action.stage, false);
        break;
      case ActionKind::kUnshard:
        out.Add(PipelineOp::kUnshard, action.stage);
        break;
      case ActionKind::kReshard:
        out.Add(PipelineOp::kReshard, action.stage);
        break;
      case ActionKind::kReduceGrad:
        out.Add(PipelineOp::kReduce, action.stage);
        break;
      default:
        for (std::size_t a = i; a < end; ++a) {
          for (const StageMove& move : out.Input(actions[a])) {
            out.Wait(received.at({move.is_backward, move.edge, move.microbatch}));
          }
        }
        for (std::size_t a = i; a < end; ++a) out.Compute(actions[a]);
    }
  }
  for (const std::int32_t send : sends) out.Wait(send);
  return std::move(out).Take();
}

// GPipe's class: receives right before each action, waits for sends at the end of each phase.
std::vector<PipelineInstruction> PytorchGpipeRank(const PipelineRules& rules,
                                                  const PipelineSchedule& schedule,
                                                  std::int32_t rank) {
  RankWriter out(schedule, rank);
  std::vector<std::int32_t> sends;
  const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool begins_phase = i > 0 && IsForward(actions[i]) != IsForward(actions[i - 1]);
    if (begins_phase) {
      for (const std::int32_t send : std::exchange(sends, {})) out.Wait(send);
    }
    out.Wait(out.Transfer(out.Input(actions[i]), kGroupQueue));
    out.Compute(actions[i]);
    if (rules.reduces_after_backward && i + 1 == actions.size()) {
      out.Add(PipelineOp::kReduce, actions[i].stage);
    }
    sends.push_back(out.Transfer(out.Output(actions[i]), kGroupQueue));
  }
  for (const std::int32_t send : sends) out.Wait(send);
  return std::move(out).Take();
}

// 1F1B's class: in the steady state a send and a receive over one edge are one call, for all of
// which compute waits; the last forward of the warm-up is sent together with the first gradient.
std::vector<PipelineInstruction> Pytorch1f1bRank(const PipelineRules& rules,
                                                 const PipelineSchedule& schedule,
                                                 std::int32_t rank) {
  RankWriter out(schedule, rank);
  const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
  const SharedCalls calls(schedule, rank);
  std::int32_t sent = kNone;       // waited for before the next send
  std::vector<StageMove> pending;  // to be sent with the next receive
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool turns = i > 0 && calls.Joins(actions[i - 1], actions[i]);
    if (turns) {
      out.Wait(
          out.Transfer(Together(std::exchange(pending, {}), out.Input(actions[i])), kGroupQueue));
    } else {
      out.Wait(out.Transfer(out.Input(actions[i]), kGroupQueue));
    }
    out.Compute(actions[i]);
    if (rules.reduces_after_backward && i + 1 == actions.size()) {
      out.Add(PipelineOp::kReduce, actions[i].stage);
    }
    const bool turns_next = i + 1 < actions.size() && calls.Joins(actions[i], actions[i + 1]);
    if (turns_next) {
      pending = out.Output(actions[i]);
      continue;
    }
    out.Wait(sent);
    sent = out.Transfer(out.Output(actions[i]), kGroupQueue);
  }
  out.Wait(sent);
  return std::move(out).Take();
}

// ---- Megatron-LM ----

// Where a chunk's last backward comes among the backwards of its rank; then its reduction starts,
// not before every rank has come so far (align_grad_reduce).
void AddAlignedReductions(const PipelineRules& rules, std::int32_t rank, std::size_t chunks,
                          std::vector<PipelineInstruction>* order) {
  if (!rules.reduces_after_backward || !rules.aligns_reduction) return;
  if (chunks == 1 && rank == 0) return;  // overlaps with its last backward, as a strategy does
  std::vector<std::size_t> places;       // of the backwards
  for (std::size_t i = 0; i < order->size(); ++i) {
    const PipelineInstruction& it = (*order)[i];
    if (it.op == PipelineOp::kCompute && MakesWeightGradient(it.action.kind)) places.push_back(i);
  }
  std::map<std::int32_t, std::size_t> last;  // stage -> index among the backwards
  for (std::size_t k = 0; k < places.size(); ++k) last[(*order)[places[k]].action.stage] = k;
  std::multimap<std::size_t, std::int32_t> after;  // place -> stage
  for (const auto& [stage, k] : last) {
    const std::size_t delay = chunks == 1 ? 0 : static_cast<std::size_t>(rank);
    const bool is_inside = k + delay < places.size();
    after.emplace(is_inside ? places[k + delay] : order->size() - 1, stage);
  }
  for (auto it = after.rbegin(); it != after.rend(); ++it) {
    order->insert(order->begin() + static_cast<std::ptrdiff_t>(it->first) + 1,
                  {PipelineOp::kReduce, {.stage = it->second}, {}});
  }
}

// Interleaved: parameters of the first two chunks are gathered at once, those of chunk c + 1 when
// the ranks come to chunk c: `rank` virtual micro-batches before this one does.
void AddAlignedGathers(const PipelineRules& rules, std::int32_t rank,
                       const std::vector<std::int32_t>& stages,
                       std::vector<PipelineInstruction>* order) {
  if (!rules.aligns_gather || stages.size() < 2) return;
  std::vector<std::size_t> places;  // of the forwards
  for (std::size_t i = 0; i < order->size(); ++i) {
    const PipelineInstruction& it = (*order)[i];
    if (it.op == PipelineOp::kCompute && IsForward(it.action)) places.push_back(i);
  }
  std::map<std::int32_t, std::size_t> first;  // stage -> index among the forwards
  for (std::size_t k = places.size(); k-- > 0;) first[(*order)[places[k]].action.stage] = k;
  std::multimap<std::size_t, std::int32_t> before;  // place -> stage to gather
  before.emplace(0, stages[0]);
  before.emplace(0, stages[1]);
  for (std::size_t c = 1; c + 1 < stages.size(); ++c) {
    const std::size_t k = first.at(stages[c]);
    const auto ahead = static_cast<std::size_t>(rank);
    before.emplace(k >= ahead ? places[k - ahead] : 0, stages[c + 1]);
  }
  for (auto it = before.rbegin(); it != before.rend(); ++it) {
    order->insert(order->begin() + static_cast<std::ptrdiff_t>(it->first),
                  {PipelineOp::kUnshard, {.stage = it->second}, {}});
  }
}

// Every exchange is one call, waited for at once by compute and by the host.
class Megatron1f1bWriter {
 public:
  Megatron1f1bWriter(const PipelineRules& rules, const PipelineSchedule& schedule,
                     std::int32_t rank)
      : rules_(rules),
        actions_(schedule.ranks[static_cast<std::size_t>(rank)]),
        calls_(schedule, rank),
        out_(schedule, rank) {}

  std::vector<PipelineInstruction> Write() && {
    if (!actions_.empty()) Exchange(out_.Input(actions_.front()));
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      out_.Compute(actions_[i]);
      const std::vector<StageMove> output = out_.Output(actions_[i]);
      if (i + 1 == actions_.size()) {
        Exchange(output);
        break;
      }
      const std::vector<StageMove> input = out_.Input(actions_[i + 1]);
      if (calls_.Joins(actions_[i], actions_[i + 1])) {
        Exchange(Together(output, input));
      } else {
        Exchange(output);
        Exchange(input);
      }
    }
    return std::move(out_).Take();
  }

 private:
  void Exchange(std::vector<StageMove> moves) {
    const std::int32_t number = out_.Transfer(std::move(moves), kGroupQueue);
    out_.Wait(number);
    if (number != kNone && rules_.synchronizes) out_.Add(PipelineOp::kSynchronize);
  }

  const PipelineRules& rules_;
  const std::vector<Action>& actions_;
  SharedCalls calls_;
  RankWriter out_;
};

// Interleaved: every edge of the ring of ranks is a communicator of its own. Overlapped, a chunk's
// output goes and the next input of its direction comes while the next chunk computes; in warm-up
// and cool-down compute waits for both at once. Not overlapped, a forward and a backward are
// followed by all their transfers in one call.
class MegatronInterleavedWriter {
 public:
  MegatronInterleavedWriter(const PipelineRules& rules, const PipelineSchedule& schedule,
                            std::int32_t rank)
      : rules_(rules),
        ranks_(schedule.shape.ranks),
        stages_(schedule.stages()),
        rank_(rank),
        warmup_(WarmupOf(schedule, rank)),
        actions_(schedule.ranks[static_cast<std::size_t>(rank)]),
        out_(schedule, rank) {
    const std::int32_t other = rank == 0 ? ranks_ - 1 : 0;
    for (const Action& action : schedule.ranks[static_cast<std::size_t>(other)]) {
      wrapped_[IsForward(action)].push_back(action);
    }
  }

  std::vector<PipelineInstruction> Write() && {
    const auto first_backward = std::find_if_not(actions_.begin(), actions_.end(), IsForward);
    Receive(actions_.front());
    for (std::size_t i = 0, end = 0; i < actions_.size(); i = end) {
      end = GroupEnd(actions_, i, /*runs_pairs=*/true);
      for (std::size_t a = i; a < end; ++a) {
        for (const StageMove& move : out_.Input(actions_[a])) Wait(move);
      }
      for (std::size_t a = i; a < end; ++a) out_.Compute(actions_[a]);
      const Action& action = actions_[i];
      const bool is_steady = i >= warmup_ && i + warmup_ < actions_.size();
      const bool is_single = end == i + 1;
      if (is_steady && is_single && !rules_.overlaps_transfers && IsForward(action)) continue;
      if (is_steady && is_single && !rules_.overlaps_transfers) Post(i - 1);
      for (std::size_t a = i; a < end; ++a) Post(a);
      const bool is_last_of_warmup = i + 1 == std::max<std::size_t>(warmup_, 1);
      if (is_last_of_warmup && first_backward != actions_.end()) Receive(*first_backward);
      const bool overlaps = is_steady || rules_.overlaps_warmup;
      if (!rules_.overlaps_transfers || !overlaps) WaitForAll();
    }
    WaitForAll();
    return std::move(out_).Take();
  }

 private:
  using Key = std::tuple<bool, std::int32_t, std::int32_t>;
  static Key KeyOf(const StageMove& move) { return {move.is_backward, move.edge, move.microbatch}; }
  // Forwards before the first one that a backward follows at once.
  static std::size_t WarmupOf(const PipelineSchedule& schedule, std::int32_t rank) {
    const ScheduleShape& shape = schedule.shape;
    const int extra = schedule.name == kMegatronPaired ? 1 : 0;
    const std::int64_t group = shape.group > 0 ? shape.group : shape.ranks;
    const std::int64_t most = std::int64_t{shape.microbatches} * shape.chunks;
    return static_cast<std::size_t>(
        std::min(2 * (shape.ranks - rank - 1) + (shape.chunks - 1) * group + extra, most));
  }
  // Rank r to r + 1 is edge r: with two ranks the two directions stay apart.
  std::int32_t QueueOf(const StageMove& move) const {
    const bool is_next = move.is_send != move.is_backward;
    return 1 + (is_next ? rank_ : (rank_ + ranks_ - 1) % ranks_);
  }

  // Even ranks send first, odd ones receive first.
  void Post(std::size_t i) {
    const bool is_forward = IsForward(actions_[i]);
    out_.Wait(std::exchange(sent_[is_forward], kNone));
    if (rank_ % 2 == 0) Send(actions_[i]);
    ReceiveNext(i);
    if (rank_ % 2 != 0) Send(actions_[i]);
  }
  void Send(const Action& action) {
    for (const StageMove& move : out_.Output(action)) {
      sent_[IsForward(action)] = out_.Transfer({move}, QueueOf(move));
    }
  }
  void Receive(const Action& action) {
    for (const StageMove& move : out_.Input(action)) {
      if (received_.count(KeyOf(move)) > 0) continue;
      received_[KeyOf(move)] = out_.Transfer({move}, QueueOf(move));
    }
  }
  // What arrives while the next action of the direction is prepared: its own input. From the last
  // rank to the first one (gradients: the other way) a tensor comes when it is made, p - 1 actions
  // after the one with the same number here, which may be long before it is used.
  void ReceiveNext(std::size_t i) {
    const bool is_forward = IsForward(actions_[i]);
    const bool wraps = rank_ == (is_forward ? 0 : ranks_ - 1);
    if (!wraps) {
      const auto is_same = [&](const Action& a) { return IsForward(a) == is_forward; };
      const auto next = std::find_if(actions_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                     actions_.end(), is_same);
      if (next != actions_.end()) Receive(*next);
      return;
    }
    const std::int64_t number = ordinal_[is_forward]++ - (ranks_ - 1);
    if (number < 0) return;
    const std::vector<Action>& made = wrapped_[is_forward];
    if (number >= static_cast<std::int64_t>(made.size())) return;
    const Action& action = made[static_cast<std::size_t>(number)];
    const std::int32_t reader = action.stage + (is_forward ? 1 : -1);
    if (reader >= 0 && reader < stages_) Receive({action.kind, reader, action.microbatch});
  }

  void Wait(const StageMove& move) { out_.Wait(std::exchange(received_.at(KeyOf(move)), kNone)); }
  void WaitForAll() {
    for (std::int32_t& send : sent_) out_.Wait(std::exchange(send, kNone));
    for (auto& [key, receive] : received_) out_.Wait(std::exchange(receive, kNone));
    if (!rules_.overlaps_transfers && rules_.synchronizes) out_.Add(PipelineOp::kSynchronize);
  }

  const PipelineRules& rules_;
  std::int32_t ranks_, stages_, rank_;
  std::size_t warmup_;
  const std::vector<Action>& actions_;
  std::vector<Action> wrapped_[2];  // [is forward]: of the rank at the other end of the ring
  RankWriter out_;
  std::map<Key, std::int32_t> received_;   // kNone: waited for
  std::int32_t sent_[2] = {kNone, kNone};  // [is forward]
  std::int64_t ordinal_[2] = {0, 0};       // of actions done, by direction
};

std::vector<PipelineInstruction> PlanRank(const PipelineRules& rules,
                                          const PipelineSchedule& schedule,
                                          const PipelineSchedule& lowered, std::int32_t rank) {
  const bool is_single = schedule.placement == StagePlacement::kLoop &&
                         schedule.shape.chunks == 1 && !schedule.splits_backward;
  if (rules.runtime == PipelineRuntime::kPytorch) {
    if (is_single && schedule.name == "gpipe") return PytorchGpipeRank(rules, schedule, rank);
    if (is_single && schedule.name == "1f1b") return Pytorch1f1bRank(rules, schedule, rank);
    return LoweredRank(lowered, rank, rules.has_one_communicator, rules.runs_pairs);
  }
  std::vector<PipelineInstruction> order;
  if (is_single) {
    order = Megatron1f1bWriter(rules, schedule, rank).Write();
  } else if (IsMegatronsInterleaving(schedule.name)) {
    order = MegatronInterleavedWriter(rules, schedule, rank).Write();
  } else {
    order = LoweredRank(lowered, rank, /*has_one_queue=*/false, rules.runs_pairs);
  }
  const std::vector<std::int32_t> stages = schedule.StagesOf(rank);
  // The two ranks of a bidirectional pipeline that hold the same stages reduce in the same order.
  const bool is_mirrored = schedule.placement == StagePlacement::kBidirectional;
  AddAlignedGathers(rules, rank, stages, &order);
  AddAlignedReductions(rules, is_mirrored ? 0 : rank, stages.size(), &order);
  return order;
}

}  // namespace

PipelineProgram PlanPipeline(const PipelineRules& rules, const PipelineSchedule& schedule) {
  const bool is_pytorch = rules.runtime == PipelineRuntime::kPytorch;
  const PipelineSchedule lowered =
      Lower(schedule, {.unsharded_stages = rules.shards_stages ? 3 : 0,
                       .reduces_gradients = is_pytorch && rules.reduces_after_backward,
                       .sends = true});
  PipelineProgram program;
  for (std::int32_t r = 0; r < schedule.shape.ranks; ++r) {
    program.ranks.push_back(PlanRank(rules, schedule, lowered, r));
  }
  return program;
}

}  // namespace stepsim
