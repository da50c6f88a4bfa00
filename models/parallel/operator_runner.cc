#include "models/parallel/operator_runner.h"

#include <utility>

namespace stepsim {

OperatorRunner::OperatorRunner(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                               std::int64_t global_rank)
    : job_(job), groups_(groups), rank_(rank), global_rank_(global_rank) {}

TaskSpan OperatorRunner::Forward(const Operator& op, const std::string& name,
                                 std::string_view suffix) {
  Issue(op, name, ExchangePlace::kBeforeForward, /*waits=*/true);
  const TaskId task = rank_.Launch(rank_.compute(), op.forward, name + std::string(suffix));
  Issue(op, name, ExchangePlace::kAfterForward, /*waits=*/true);
  return {task, task};
}

TaskSpan OperatorRunner::InputGradient(const Operator& op, const std::string& name) {
  Issue(op, name, ExchangePlace::kBeforeBackward, /*waits=*/true);
  Issue(op, name, ExchangePlace::kBesideInputGradient, !job_.plan.tensor.async_input_gradient);
  return LaunchAll(op.backward_input, name + ".dgrad");
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
    case ExchangeAxis::kContext:
      axis = {groups_.Of(mesh.Peers(global_rank_, {MeshAxis::kContext}), "cp", "context parallel"),
              {},
              Site::kContextParallel,
              "cp"};
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
  }
  axis.stream = rank_.AddStream("nccl " + axis.name);
  return axis;
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
