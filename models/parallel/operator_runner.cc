#include "models/parallel/operator_runner.h"

#include <utility>

#include "models/parallel/async_tensor.h"
#include "models/parallel/user_buffers.h"
#include "models/spec/context_split.h"

namespace stepsim {

OperatorRunner::OperatorRunner(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                               std::int64_t global_rank)
    : job_(job), groups_(groups), rank_(rank), global_rank_(global_rank), lane_(rank.compute()) {}

StreamId OperatorRunner::side() { return rank_.AddStream("side"); }

void OperatorRunner::BeginForward(const Operator& op) {
  lane_ = op.side == SideStream::kRuns ? side() : rank_.compute();
  if (op.side == SideStream::kJoins) rank_.Wait(lane_, rank_.Record(side()));
}

void OperatorRunner::BeginBackward(const Operator& op) {
  lane_ = op.side == SideStream::kRuns ? side() : rank_.compute();
  if (op.side == SideStream::kOpens) rank_.Wait(lane_, rank_.Record(side()));
}

TaskSpan OperatorRunner::Forward(const Operator& op, const std::string& name,
                                 std::string_view suffix) {
  BeginForward(op);
  const Exchange* gather = Hidden(op, ExchangePlace::kBeforeForward);
  const Exchange* scatter = Hidden(op, ExchangePlace::kAfterForward);
  if (gather == nullptr) Issue(op, name, ExchangePlace::kBeforeForward, /*waits=*/true);
  TaskSpan kernels;
  if (op.steps != nullptr) {
    kernels = Ring().Forward(*op.steps, name, suffix);
  } else if (gather != nullptr || scatter != nullptr) {
    kernels = Hide(gather != nullptr ? *gather : *scatter, op.forward, name + std::string(suffix));
  } else if (!op.is_exchange) {
    kernels.first = rank_.Launch(lane_, op.forward, name + std::string(suffix));
    kernels.last = kernels.first;
  }
  if (op.side == SideStream::kOpens) rank_.Wait(side(), rank_.Record(lane_));
  if (scatter == nullptr) Issue(op, name, ExchangePlace::kAfterForward, /*waits=*/true);
  if (op.host_reads) rank_.BlockHost(rank_.Record(rank_.compute()));
  return kernels;
}

TaskSpan OperatorRunner::InputGradient(const Operator& op, const std::string& name) {
  BeginBackward(op);
  const Exchange* gather = Hidden(op, ExchangePlace::kBeforeBackward);
  const Exchange* scatter = Hidden(op, ExchangePlace::kBesideWeightGradient);
  if (gather == nullptr) Issue(op, name, ExchangePlace::kBeforeBackward, /*waits=*/true);
  Issue(op, name, ExchangePlace::kBesideInputGradient, !HidesInputGradients(job_));
  TaskSpan kernels;
  if (op.steps != nullptr) {
    kernels = Ring().Backward(*op.steps, name);
  } else if (gather != nullptr || scatter != nullptr) {
    // What is added to the product comes before it where the sum is scattered.
    const std::vector<ComputeWork> rest(op.backward_input.begin() + 1, op.backward_input.end());
    const TaskSpan before = LaunchAll(scatter != nullptr ? rest : Works{}, name + ".dgrad");
    kernels =
        Hide(gather != nullptr ? *gather : *scatter, op.backward_input.front(), name + ".dgrad");
    if (before.first != kNoId<TaskId>) kernels.first = before.first;
    const TaskSpan behind = LaunchAll(scatter != nullptr ? Works{} : rest, name + ".dgrad");
    if (behind.last != kNoId<TaskId>) kernels.last = behind.last;
  } else {
    kernels = LaunchAll(op.backward_input, name + ".dgrad");
  }
  Issue(op, name, ExchangePlace::kAfterInputGradient, /*waits=*/true);
  if (op.side == SideStream::kJoins) rank_.Wait(side(), rank_.Record(lane_));
  return kernels;
}

// Of exchanges of one group the second starts when the first is over, and compute waits for the
// first before it goes on.
TaskSpan OperatorRunner::WeightGradient(const Operator& op, const std::string& name) {
  BeginBackward(op);
  std::vector<StreamEvent> read = std::exchange(pending_, {});
  if (Hidden(op, ExchangePlace::kBesideWeightGradient) == nullptr) {
    Issue(op, name, ExchangePlace::kBesideWeightGradient, !HidesInputGradients(job_));
  }
  for (StreamEvent& event : read) rank_.Wait(lane_, std::move(event));
  return LaunchAll(op.backward_weight, name + ".wgrad");
}

void OperatorRunner::EndBackward() {
  for (StreamEvent& event : std::exchange(pending_, {})) {
    rank_.Wait(lane_, std::move(event));
  }
}

void OperatorRunner::Issue(const Operator& op, const std::string& name, ExchangePlace place,
                           bool waits) {
  for (const Exchange& exchange : op.exchanges) {
    if (exchange.place != place) continue;
    Axis& axis = AxisOf(exchange.axis);
    rank_.Wait(axis.stream, rank_.Record(lane_));
    rank_.LaunchCollective(
        axis.stream,
        {exchange.op, exchange.dtype, exchange.bytes, axis.group, SmsOf(exchange, place)},
        name + " " + exchange.name, axis.site);
    StreamEvent done = rank_.Record(axis.stream);
    if (exchange.host_reads) rank_.BlockHost(done);
    if (waits) {
      rank_.Wait(lane_, std::move(done));
    } else {
      pending_.push_back(std::move(done));
    }
  }
}

// Bulk collectives of user buffers are kernels of Transformer Engine.
std::int32_t OperatorRunner::SmsOf(const Exchange& exchange, ExchangePlace place) const {
  const TensorPlan& plan = job_.plan.tensor;
  if (plan.overlap != TensorOverlap::kUserBuffers || exchange.axis != ExchangeAxis::kTensor) {
    return 0;
  }
  const bool is_bulk = (place == ExchangePlace::kBesideInputGradient && plan.bulk_dgrad) ||
                       (place == ExchangePlace::kBesideWeightGradient && plan.bulk_wgrad);
  return is_bulk ? UserBuffers::kSms : 0;
}

// Which exchange of this place runs inside the product that reads or writes it? nullptr: none.
const Exchange* OperatorRunner::Hidden(const Operator& op, ExchangePlace place) const {
  const TensorPlan& plan = job_.plan.tensor;
  if (plan.overlap == TensorOverlap::kNone || op.steps != nullptr) return nullptr;
  const bool is_forward =
      place == ExchangePlace::kBeforeForward || place == ExchangePlace::kAfterForward;
  if (!is_forward && op.backward_input.empty()) return nullptr;
  const ComputeWork& product = is_forward ? op.forward : op.backward_input.front();
  if (product.compute_class != ComputeClass::kGemm) return nullptr;
  for (const Exchange& exchange : op.exchanges) {
    if (exchange.place != place || exchange.axis != ExchangeAxis::kTensor) continue;
    const bool gathers =
        place == ExchangePlace::kBeforeForward || place == ExchangePlace::kBeforeBackward;
    if (exchange.op != (gathers ? CollectiveOp::kAllGather : CollectiveOp::kReduceScatter)) {
      continue;
    }
    if (plan.overlap == TensorOverlap::kAsync) {
      // inductor matches what one product writes, not the sum over q, k and v.
      const bool is_sum =
          place == ExchangePlace::kBesideWeightGradient && op.backward_input.size() > 1;
      return is_sum ? nullptr : &exchange;
    }
    if (op.name == "head")
      return nullptr;  // Megatron-LM's output layer is not Transformer Engine's
    const bool is_on = gathers                                 ? plan.overlap_ag
                       : place == ExchangePlace::kAfterForward ? plan.overlap_rs
                                                               : plan.overlap_rs_dgrad;
    return is_on ? &exchange : nullptr;
  }
  return nullptr;
}

TaskSpan OperatorRunner::Hide(const Exchange& exchange, const ComputeWork& product,
                              const std::string& name) {
  const GroupId group = AxisOf(ExchangeAxis::kTensor).group;
  const std::int64_t ranks = job_.plan.tensor_parallel;
  const bool gathers = exchange.op == CollectiveOp::kAllGather;
  if (job_.plan.tensor.overlap == TensorOverlap::kAsync) {
    AsyncTensor async(rank_, group, ranks);
    // The weight gradient reads a gathered dy, and x where that is not gathered again.
    const bool is_read_later =
        exchange.place == ExchangePlace::kBeforeBackward || !RegathersInput(job_);
    return gathers ? async.GatherAndMultiply(exchange, product, is_read_later, name)
                   : async.MultiplyAndScatter(product, exchange, name);
  }
  UserBuffers buffers(rank_, group, ranks, job_.plan.tensor);
  if (gathers) return buffers.RingGather(exchange, product, name);
  return exchange.place == ExchangePlace::kAfterForward
             ? buffers.PipelinedScatter(product, exchange, name)
             : buffers.RingScatter(product, exchange, name);
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

TaskSpan OperatorRunner::LaunchAll(const Works& works, const std::string& name) {
  TaskSpan span;
  for (const ComputeWork& work : works) {
    span.last = rank_.Launch(lane_, work, name);
    if (span.first == kNoId<TaskId>) span.first = span.last;
  }
  return span;
}

}  // namespace stepsim
