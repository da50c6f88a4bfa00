#include "models/parallel/operator_runner.h"

#include <utility>

#include "models/spec/context_split.h"

namespace stepsim {

OperatorRunner::OperatorRunner(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                               std::int64_t global_rank)
    : job_(job), groups_(groups), rank_(rank), global_rank_(global_rank) {}

TaskSpan OperatorRunner::Forward(const Operator& op, const std::string& name,
                                 std::string_view suffix) {
  Issue(op, name, ExchangePlace::kBeforeForward, /*waits=*/true);
  TaskSpan kernels;
  if (op.steps != nullptr) {
    kernels = Ring().Forward(*op.steps, name, suffix);
  } else {
    kernels.first = rank_.Launch(rank_.compute(), op.forward, name + std::string(suffix));
    kernels.last = kernels.first;
  }
  Issue(op, name, ExchangePlace::kAfterForward, /*waits=*/true);
  if (op.host_reads) rank_.BlockHost(rank_.Record(rank_.compute()));
  return kernels;
}

TaskSpan OperatorRunner::InputGradient(const Operator& op, const std::string& name) {
  Issue(op, name, ExchangePlace::kBeforeBackward, /*waits=*/true);
  Issue(op, name, ExchangePlace::kBesideInputGradient, !job_.plan.tensor.async_input_gradient);
  const TaskSpan kernels = op.steps != nullptr ? Ring().Backward(*op.steps, name)
                                               : LaunchAll(op.backward_input, name + ".dgrad");
  Issue(op, name, ExchangePlace::kAfterInputGradient, /*waits=*/true);
  return kernels;
}

// Of exchanges of one group the second starts when the first is over, and compute waits for the
// first before it goes on.
TaskSpan OperatorRunner::WeightGradient(const Operator& op, const std::string& name) {
  std::vector<StreamEvent> read = std::exchange(pending_, {});
  Issue(op, name, ExchangePlace::kBesideWeightGradient, !job_.plan.tensor.async_input_gradient);
  for (StreamEvent& event : read) rank_.Wait(rank_.compute(), std::move(event));
  return LaunchAll(op.backward_weight, name + ".wgrad");
}

void OperatorRunner::EndBackward() {
  for (StreamEvent& event : std::exchange(pending_, {})) {
    rank_.Wait(rank_.compute(), std::move(event));
  }
}

void OperatorRunner::Issue(const Operator& op, const std::string& name, ExchangePlace place,
                           bool waits) {
  for (const Exchange& exchange : op.exchanges) {
    if (exchange.place != place) continue;
    Axis& axis = AxisOf(exchange.axis);
    rank_.Wait(axis.stream, rank_.Record(rank_.compute()));
    rank_.LaunchCollective(axis.stream, {exchange.op, exchange.dtype, exchange.bytes, axis.group},
                           name + " " + exchange.name, axis.site);
    StreamEvent done = rank_.Record(axis.stream);
    if (waits) {
      rank_.Wait(rank_.compute(), std::move(done));
    } else {
      pending_.push_back(std::move(done));
    }
  }
}

OperatorRunner::Axis& OperatorRunner::AxisOf(ExchangeAxis which) {
  Axis& axis = axes_[static_cast<std::size_t>(which)];
  if (axis.stream != kNoId<StreamId>) return axis;
  const Mesh& mesh = groups_.mesh();
  switch (which) {
    case ExchangeAxis::kTensor:
      axis = {groups_.Of(mesh.Peers(global_rank_, {MeshAxis::kTensor}), "tp", "tensor parallel"),
              {},
              Site::kTensorParallel,
              "tp"};
      break;
    case ExchangeAxis::kContextHeads:
      axis = ContextAxis(/*of_ring=*/false);
      break;
    case ExchangeAxis::kContextRing:
      axis = ContextAxis(/*of_ring=*/true);
      break;
    case ExchangeAxis::kExpert:
      axis = {
          groups_.Of(mesh.ExpertPeers(global_rank_, ExpertAxis::kExpert), "ep", "expert parallel"),
          {},
          Site::kExpertParallel,
          "ep"};
      break;
    case ExchangeAxis::kExpertTensor:
      axis = {groups_.Of(mesh.ExpertPeers(global_rank_, ExpertAxis::kTensor), "etp",
                         "expert tensor parallel"),
              {},
              Site::kTensorParallel,
              "etp"};
      break;
    case ExchangeAxis::kExperts:
      axis = {groups_.Of(mesh.ExpertRanks(global_rank_), "etp-ep", "experts of a layer"),
              {},
              Site::kExpertParallel,
              "etp-ep"};
      break;
  }
  axis.stream = rank_.AddStream("nccl " + axis.name);
  return axis;
}

// Ranks that swap heads are neighbours along the axis, a ring has the same place of every such set.
OperatorRunner::Axis OperatorRunner::ContextAxis(bool of_ring) const {
  const Mesh& mesh = groups_.mesh();
  const ContextSplit split = SplitContext(job_);
  const std::int64_t place = mesh.PlaceOf(global_rank_, MeshAxis::kContext);
  const std::int64_t inside = place % split.heads;
  std::vector<std::int32_t> peers;
  for (std::int64_t i = 0; i < (of_ring ? split.ring : split.heads); ++i) {
    const std::int64_t peer = of_ring ? i * split.heads + inside : place - inside + i;
    peers.push_back(static_cast<std::int32_t>(mesh.Moved(global_rank_, MeshAxis::kContext, peer)));
  }
  const bool is_whole = split.heads == 1 || split.ring == 1;
  const char* name = is_whole ? "cp" : of_ring ? "cp ring" : "cp heads";
  const char* part = is_whole ? "" : of_ring ? ": pieces of the sequence" : ": parts of the heads";
  return {groups_.Of(std::move(peers), name, std::string("context parallel") + part),
          {},
          Site::kContextParallel,
          name};
}

// A rank that stands for all is the last one: where the work differs it has the most.
RingAttention OperatorRunner::Ring() {
  const ContextSplit split = SplitContext(job_);
  const std::int64_t place =
      job_.simulate.all_ranks
          ? groups_.mesh().PlaceOf(global_rank_, MeshAxis::kContext) / split.heads
          : split.ring - 1;
  const Axis& axis = AxisOf(ExchangeAxis::kContextRing);
  return {rank_, axis.stream, axis.group, place};
}

TaskSpan OperatorRunner::LaunchAll(const std::vector<ComputeWork>& works, const std::string& name) {
  TaskSpan span;
  for (const ComputeWork& work : works) {
    span.last = rank_.Launch(rank_.compute(), work, name);
    if (span.first == kNoId<TaskId>) span.first = span.last;
  }
  return span;
}

}  // namespace stepsim
