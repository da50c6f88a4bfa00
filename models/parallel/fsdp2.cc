// PyTorch FSDP2 (fully_shard), hook by hook: reference/schedules "FSDP2" as retold in
// models/README.md, "FSDP2".
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/grouped_strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

// A group on its way through one micro-step.
struct GroupState {
  bool is_unsharded = false;
  std::optional<StreamEvent> gathered;  // a gather that nobody has waited for yet
  Bytes gradients;                      // unsharded, alive
  StreamEvent reduced;                  // the post-reduce event
};

class Fsdp2 : public GroupedStrategy {
 public:
  explicit Fsdp2(const StrategyContext& context)
      : GroupedStrategy(GroupUnits(context.workload, context.job.plan.fsdp2.wrap,
                                   context.job.plan.fsdp2.wrap_min_parameters)),
        plan_(context.job.plan.fsdp2),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        shard_group_(context.shard),
        replicate_group_(context.replicate),
        states_(group_count()),
        copy_in_(context.rank.AddStream("all_gather copy-in")),
        gather_(context.rank.AddStream("all_gather")),
        reduce_(context.rank.AddStream("reduce_scatter")),
        communicator_(context.rank.AddCommunicator("communicator shard")) {
    reduce_communicator_ = plan_.separate_reduce_group
                               ? context.rank.AddCommunicator("communicator reduce")
                               : communicator_;
    if (sharding_.replicas > 1) all_reduce_ = context.rank.AddStream("all_reduce");
  }

  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    const ParameterTensor& tensor = workload_.parameters[static_cast<std::size_t>(parameter)];
    GroupState& state = states_[GroupOfParameter(parameter)];
    if (AccumulatesGradients(moment)) return;
    state.gradients += tensor.bytes();
    moment.rank.graph().AddMemoryEvent(moment.rank.Record(moment.rank.compute()).last,
                                       /*at_end=*/true, "unsharded_gradients", tensor.bytes());
  }

  // The final callback.
  void AfterLastBackward(const Moment& moment) override {
    PostBackward(moment, kRoot);
    if (!Reduces(moment)) return;
    RankProgram& rank = moment.rank;
    for (const GroupState& state : states_) rank.Wait(rank.compute(), state.reduced);
    rank.Wait(rank.compute(), reduce_state_);
    FreeReduceInput(rank, rank.Record(reduce_).last);
    reduce_state_ = {};
  }

  // Gradients are kept unsharded only while nothing is reduced.
  bool AccumulatesGradients(const Moment& moment) const override {
    return !plan_.requires_gradient_sync && !moment.is_first_microstep;
  }

 private:
  void BeginForward(RankProgram& rank) override {
    const StreamEvent now = rank.Record(rank.compute());
    rank.Wait(copy_in_, now);
    rank.Wait(gather_, now);
  }

  void PreForward(RankProgram& rank, std::size_t g) override {
    Unshard(rank, g);
    WaitForUnshard(rank, g, /*in_backward=*/false);
    for (std::int64_t i = 1; i <= plan_.forward_prefetch; ++i) {
      const std::size_t next = g + static_cast<std::size_t>(i);
      if (next < group_count()) Unshard(rank, next);
    }
  }

  void PostForward(RankProgram& rank, std::size_t g) override {
    if (ReshardsAfterForward(g)) Reshard(rank, g);
    if (g == kRoot) ReleaseGatherOutput(rank);
  }

  void PreBackward(RankProgram& rank, std::size_t g) override {
    Unshard(rank, g);
    WaitForUnshard(rank, g, /*in_backward=*/true);
    for (std::int64_t i = 1; i <= plan_.backward_prefetch; ++i) {
      if (const auto next = NextOfBackward(g, static_cast<std::size_t>(i))) Unshard(rank, *next);
    }
  }

  bool Reduces(const Moment& moment) const {
    return plan_.requires_gradient_sync || moment.is_last_microstep;
  }
  bool ReshardsAfterForward(std::size_t g) const {
    if (plan_.reshard_after_forward == "auto") return g != kRoot;
    return plan_.reshard_after_forward != "false";
  }
  Bytes Unsharded(std::size_t g) const {
    return SizeOf(sharding_.gather, PaddedElements(GroupAt(g).elements, sharding_.shards));
  }

  // The shards are cast and packed into the gather's output, then gathered in place.
  void Unshard(RankProgram& rank, std::size_t g) {
    GroupState& state = states_[g];
    if (state.is_unsharded || state.gathered || GroupAt(g).elements == 0) return;
    const std::string& name = GroupAt(g).name;
    const Bytes shard = sharding_.ShardOf(GroupAt(g).elements, sharding_.storage);
    const Bytes cast = sharding_.ShardOf(GroupAt(g).elements, sharding_.gather);
    const TaskId copied = rank.Launch(copy_in_, CopyWork(shard, cast), "copy_in " + name);
    rank.graph().AddMemoryEvent(copied, /*at_end=*/false, "gather_buffers", Unsharded(g));
    rank.Wait(gather_, rank.Record(copy_in_));
    rank.LaunchCollective(gather_,
                          {CollectiveOp::kAllGather, sharding_.gather, Unsharded(g), shard_group_},
                          "all_gather " + name, Site::kParameterGather, communicator_);
    state.gathered = rank.Record(gather_);
  }

  // Compute waits for the gather and splits its output into the parameters.
  void WaitForUnshard(RankProgram& rank, std::size_t g, bool in_backward) {
    GroupState& state = states_[g];
    if (!state.gathered) return;
    if (!in_backward) ReleaseGatherOutput(rank);
    rank.Wait(rank.compute(), *state.gathered);
    const TaskId copied = rank.Launch(rank.compute(), CopyWork(Unsharded(g), Unsharded(g)),
                                      "copy_out " + GroupAt(g).name);
    rank.graph().AddMemoryEvent(copied, /*at_end=*/false, "unsharded_parameters", Unsharded(g));
    state.gathered.reset();
    state.is_unsharded = true;
    pending_ = {g, rank.Record(rank.compute())};
    if (in_backward) ReleaseGatherOutput(rank);
  }

  // The gather output that compute has copied out of is given back: later gathers wait for that.
  void ReleaseGatherOutput(RankProgram& rank) {
    if (pending_.second.last == kNoId<TaskId>) return;
    rank.Wait(copy_in_, pending_.second);
    rank.Wait(gather_, pending_.second);
    rank.graph().AddMemoryEvent(pending_.second.last, /*at_end=*/true, "gather_buffers",
                                Bytes{} - Unsharded(pending_.first));
    pending_ = {};
  }

  void Reshard(RankProgram& rank, std::size_t g) {
    GroupState& state = states_[g];
    if (!state.is_unsharded) return;
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "unsharded_parameters", Bytes{} - Unsharded(g));
    state.is_unsharded = false;
  }

  void PostBackward(const Moment& moment, std::size_t g) override {
    RankProgram& rank = moment.rank;
    if (Reduces(moment) || plan_.reshard_after_backward) Reshard(rank, g);
    if (!Reduces(moment) || GroupAt(g).elements == 0) return;
    // One reduce_scatter input in flight: compute waits for the previous group's.
    rank.Wait(rank.compute(), reduce_state_);
    FreeReduceInput(rank, reduce_state_.last);
    Reduce(moment, g);
  }

  void Reduce(const Moment& moment, std::size_t g) {
    RankProgram& rank = moment.rank;
    GroupState& state = states_[g];
    const std::string& name = GroupAt(g).name;
    const Bytes gradients = SizeOf(sharding_.gather, GroupAt(g).elements);
    const Bytes input =
        SizeOf(sharding_.reduce, PaddedElements(GroupAt(g).elements, sharding_.shards));
    const TaskId packed =
        rank.Launch(rank.compute(), CopyWork(gradients, input), "pack gradients " + name);
    rank.graph().AddMemoryEvent(packed, /*at_end=*/false, "reduce_buffers", input);
    rank.graph().AddMemoryEvent(packed, /*at_end=*/true, "unsharded_gradients",
                                Bytes{} - state.gradients);
    state.gradients = {};
    reduce_input_ = input;
    rank.Wait(reduce_, rank.Record(rank.compute()));
    rank.LaunchCollective(reduce_,
                          {CollectiveOp::kReduceScatter, sharding_.reduce, input, shard_group_},
                          "reduce_scatter " + name, Site::kGradientReduce, reduce_communicator_);
    reduce_state_ = rank.Record(reduce_);
    state.reduced = FinishReduce(moment, g);
  }

  // HSDP: the shard is summed over the copies, on a stream of its own.
  StreamEvent FinishReduce(const Moment& moment, std::size_t g) {
    RankProgram& rank = moment.rank;
    const Bytes shard = sharding_.ShardOf(GroupAt(g).elements, sharding_.reduce);
    const bool sums_copies =
        sharding_.replicas > 1 && (plan_.requires_all_reduce || moment.is_last_microstep);
    const StreamId last = sums_copies ? all_reduce_ : reduce_;
    if (sums_copies) {
      rank.Wait(all_reduce_, rank.Record(reduce_));
      rank.LaunchCollective(all_reduce_,
                            {CollectiveOp::kAllReduce, sharding_.reduce, shard, replicate_group_},
                            "all_reduce " + GroupAt(g).name, Site::kGradientReduce);
    }
    // Division is part of the sum; the result is cast, or added to what earlier micro-steps left.
    if (!moment.is_first_microstep) {
      rank.Launch(
          last,
          AccumulateWork(sharding_.storage, shard.value / ElementSize(sharding_.reduce).value),
          "accumulate " + GroupAt(g).name);
    }
    return rank.Record(last);
  }

  void FreeReduceInput(RankProgram& rank, TaskId reduced) {
    if (reduce_input_.value == 0) return;
    rank.graph().AddMemoryEvent(reduced, /*at_end=*/true, "reduce_buffers",
                                Bytes{} - reduce_input_);
    reduce_input_ = {};
  }

  const Fsdp2Plan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  GroupId shard_group_;
  GroupId replicate_group_;
  std::vector<GroupState> states_;
  StreamId copy_in_, gather_, reduce_;
  StreamId all_reduce_ = kNoId<StreamId>;
  StreamId communicator_, reduce_communicator_ = kNoId<StreamId>;
  std::pair<std::size_t, StreamEvent> pending_;  // whose gather output is alive, and its copy-out
  StreamEvent reduce_state_;                     // the last reduce_scatter
  Bytes reduce_input_;                           // its input
};

}  // namespace

std::unique_ptr<Strategy> MakeFsdp2(const StrategyContext& context) {
  return std::make_unique<Fsdp2>(context);
}

}  // namespace stepsim
