// PyTorch FSDP1 (FullyShardedDataParallel), hook by hook: models/README.md,
// "FSDP1".
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/grouped_strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

// A flat parameter on its way through one micro-step.
struct UnitState {
  bool is_unsharded = false;
  StreamEvent gathered;
  std::optional<StreamEvent> gathered_for_backward;  // plan.ideal
  Bytes gradient;                                    // unsharded, alive
  std::int32_t gradient_of = -1;                     // the step that left a sharded gradient
};

// Kernels that run one after the other, as one task.
class KernelSum {
 public:
  void Add(const ComputeWork& part) {
    work_.bytes += part.bytes;
    work_.kernels += part.kernels;
  }
  bool is_empty() const { return work_.kernels == 0; }
  const ComputeWork& work() const { return work_; }

 private:
  static ComputeWork Nothing() {
    ComputeWork work = CopyWork(Bytes{}, Bytes{});
    work.kernels = 0;
    return work;
  }
  ComputeWork work_ = Nothing();
};

class Fsdp1 : public GroupedStrategy {
 public:
  explicit Fsdp1(const StrategyContext& context)
      : GroupedStrategy(context.workload, GroupUnits(context.workload, context.job.plan.fsdp1)),
        plan_(context.job.plan.fsdp1),
        is_ideal_(context.job.plan.ideal),
        sharding_(ShardingOf(context.job)),
        pre_divide_(PreDivideFactor(static_cast<double>(context.job.gradient_ranks()))),
        post_divide_(static_cast<double>(context.job.gradient_ranks()) / pre_divide_),
        shard_group_(context.dense.shard),
        replicate_group_(context.dense.replicate),
        states_(group_count()),
        gather_(context.rank.AddStream("unshard")),
        reduce_(context.rank.AddStream("post_backward")),
        communicator_(context.rank.AddCommunicator("communicator shard")) {
    reduce_communicator_ = plan_.separate_reduce_group || is_ideal_
                               ? context.rank.AddCommunicator("communicator reduce")
                               : communicator_;
    if (Casts()) cast_ = context.rank.AddStream("pre_unshard");
    if (sharding_.replicas > 1 && Shards()) all_reduce_ = context.rank.AddStream("all_reduce");
  }

  // A flat gradient grows tensor by tensor; micro-steps that do not reduce add to it in place.
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    if (AccumulatesGradients(moment)) return;
    const ParameterTensor& tensor = workload().parameters[static_cast<std::size_t>(parameter)];
    ChangeGradient(moment.rank, GroupOfParameter(parameter),
                   SizeOf(sharding_.gather, tensor.elements),
                   moment.rank.Record(moment.rank.compute()).last);
  }

  void AfterLastBackward(const Moment& moment) override {
    RankProgram& rank = moment.rank;
    PostBackward(moment, kRoot);
    if (!Reduces(moment)) return;
    rank.Wait(rank.compute(), rank.Record(reduce_));
    if (all_reduce_ != kNoId<StreamId>) rank.Wait(rank.compute(), rank.Record(all_reduce_));
  }

  bool AccumulatesGradients(const Moment& moment) const override {
    return plan_.no_sync && !moment.is_first_microstep;
  }

 private:
  static constexpr std::size_t kMostFrees = 2;  // the rate limiter's constant

  bool Reduces(const Moment& moment) const { return !plan_.no_sync || moment.is_last_microstep; }
  bool Shards() const { return sharding_.shards > 1; }
  bool Casts() const { return sharding_.gather != sharding_.storage; }
  bool FreesAfterForward() const { return ReshardsAfterForward(plan_.sharding_strategy); }
  bool IsFirstIteration() const { return plan_.iteration == TrainingIteration::kFirst; }
  // A gather leaves an unsharded copy; without shards a cast does.
  bool MakesCopies() const { return Shards() || Casts(); }
  std::int64_t PaddedOf(std::size_t g) const {
    return PaddedElements(GroupAt(g).elements, sharding_.shards);
  }
  Bytes Unsharded(std::size_t g) const { return SizeOf(sharding_.gather, PaddedOf(g)); }

  // ---- Parameters ----

  void BeginForward(const Moment& moment) override {
    RankProgram& rank = moment.rank;
    if (!is_ideal_ || moment.is_first_microstep) {
      const StreamEvent now = rank.Record(rank.compute());
      rank.Wait(gather_, now);
      if (Casts()) rank.Wait(cast_, now);
    }
    if (is_ideal_) GatherBeforehand(rank);
  }

  // plan.ideal: everything that this micro-step will need, in the order of the need.
  void GatherBeforehand(RankProgram& rank) {
    rank.LaunchBeforehand(true);
    for (std::size_t g = 0; g < group_count(); ++g) Unshard(rank, g);
    for (std::size_t g = group_count(); FreesAfterForward() && MakesCopies() && --g > kRoot;) {
      if (GroupAt(g).elements > 0) states_[g].gathered_for_backward = Gather(rank, g);
    }
    rank.LaunchBeforehand(false);
  }

  void PreForward(const Moment& moment, std::size_t g) override {
    RankProgram& rank = moment.rank;
    const bool knows_order = !IsFirstIteration() || !moment.is_first_microstep;
    if (!knows_order) CheckOrder(rank, g);
    Unshard(rank, g);
    WaitForGathers(rank, g);
    const bool prefetches = plan_.forward_prefetch && knows_order && !is_ideal_;
    if (prefetches && g + 1 < group_count()) Unshard(rank, g + 1);
  }

  // Do all ranks gather the same unit? The host reads the answer.
  void CheckOrder(RankProgram& rank, std::size_t g) {
    if (!Shards() || GroupAt(g).elements == 0) return;
    const Bytes bytes = SizeOf(DType::kFp32, sharding_.shards);  // an int32 of each
    rank.LaunchCollective(rank.compute(),
                          {CollectiveOp::kAllGather, DType::kFp32, bytes, shard_group_},
                          "check order " + GroupAt(g).name, Site::kParameterGather,
                          is_ideal_ ? reduce_communicator_ : communicator_);
    rank.BlockHost(rank.Record(rank.compute()));
  }

  // The root is never freed between forward and backward; the cast copies of NO_SHARD always are.
  void PostForward(const Moment& moment, std::size_t g) override {
    if (!Shards() || (g != kRoot && FreesAfterForward())) Free(moment.rank, g);
  }

  void PreBackward(const Moment& moment, std::size_t g) override {
    RankProgram& rank = moment.rank;
    Unshard(rank, g);
    WaitForGathers(rank, g);
    if (plan_.backward_prefetch == BackwardPrefetch::kPre) UnshardNextOfBackward(rank, g);
  }

  void PreRerun(const Moment& moment, std::size_t g) override {
    Unshard(moment.rank, g);
    WaitForGathers(moment.rank, g);
  }
  void PostRerun(const Moment& moment, std::size_t g) override {
    if (!is_ideal_) PostForward(moment, g);
  }

  void UnshardNextOfBackward(RankProgram& rank, std::size_t g) {
    if (is_ideal_) return;
    if (const auto next = NextOfBackward(g, 1)) Unshard(rank, *next);
  }

  // Compute waits for the whole stream: for all gathers so far.
  void WaitForGathers(RankProgram& rank, std::size_t g) {
    rank.Wait(rank.compute(), is_ideal_ || !Shards() ? states_[g].gathered : rank.Record(gather_));
  }

  void Unshard(RankProgram& rank, std::size_t g) {
    UnitState& state = states_[g];
    if (state.is_unsharded || !MakesCopies() || GroupAt(g).elements == 0) return;
    state.is_unsharded = true;
    state.gathered = state.gathered_for_backward
                         ? *std::exchange(state.gathered_for_backward, std::nullopt)
                         : Gather(rank, g);
  }

  StreamEvent Gather(RankProgram& rank, std::size_t g) {
    const std::string& name = GroupAt(g).name;
    TaskId made = kNoId<TaskId>;
    if (Casts()) {
      made = rank.Launch(
          cast_, CastWork(sharding_.storage, sharding_.gather, PaddedOf(g) / sharding_.shards),
          "cast shard " + name);
      rank.Wait(gather_, rank.Record(cast_));
    }
    if (Shards()) {
      if (plan_.limit_all_gathers && !is_ideal_) LimitGathers(rank);
      made = rank.LaunchCollective(
          gather_, {CollectiveOp::kAllGather, sharding_.gather, Unsharded(g), shard_group_},
          "all_gather " + name, Site::kParameterGather, communicator_);
    }
    if (is_ideal_) {
      rank.graph().AddMemoryEvent(made, /*at_end=*/false, "unsharded_parameters", Unsharded(g));
    } else {
      rank.AllocateAtLaunch(made, "unsharded_parameters", Unsharded(g));
    }
    return rank.Record(Shards() ? gather_ : cast_);
  }

  // With so many frees that the device has not reached, the host waits for the oldest.
  void LimitGathers(RankProgram& rank) {
    if (free_events_.size() < kMostFrees) return;
    rank.BlockHost(free_events_.front());
    free_events_.pop_front();
  }

  // What compute has been given to do is the last use; the limiter counts from there.
  void Free(RankProgram& rank, std::size_t g) {
    if (!std::exchange(states_[g].is_unsharded, false)) return;
    const StreamEvent used = rank.Record(rank.compute());
    rank.graph().AddMemoryEvent(used.last, /*at_end=*/true, "unsharded_parameters",
                                Bytes{} - Unsharded(g));
    if (Shards()) free_events_.push_back(used);
  }

  // ---- Gradients ----

  void PostBackward(const Moment& moment, std::size_t g) override {
    if (GroupAt(g).elements == 0) return;
    if (Reduces(moment) || FreesAfterForward() || !Shards()) Free(moment.rank, g);
    if (plan_.backward_prefetch == BackwardPrefetch::kPost && g != kRoot) {
      UnshardNextOfBackward(moment.rank, g);
    }
    if (Reduces(moment)) Reduce(moment, g);
  }

  void ChangeGradient(RankProgram& rank, std::size_t g, Bytes delta, TaskId task) {
    states_[g].gradient += delta;
    rank.graph().AddMemoryEvent(task, /*at_end=*/true, "unsharded_gradients", delta);
  }

  // The whole gradient lives until it has been reduced: nothing limits how many wait. Cast or
  // padded it is another tensor, in the type of the reduction; the one that backward made is then
  // done with.
  void Reduce(const Moment& moment, std::size_t g) {
    RankProgram& rank = moment.rank;
    const std::string& name = GroupAt(g).name;
    const std::int64_t elements = PaddedOf(g);
    const Bytes bytes = SizeOf(sharding_.reduce, elements);
    rank.Wait(reduce_, rank.Record(rank.compute()));
    KernelSum prepare;
    if (sharding_.gather != sharding_.reduce) {
      prepare.Add(CastWork(sharding_.gather, sharding_.reduce, elements));
    }
    if (elements != GroupAt(g).elements) prepare.Add(CopyWork(bytes, bytes));
    const bool is_copied = !prepare.is_empty();
    if (pre_divide_ > 1) prepare.Add(CopyWork(bytes, bytes));
    if (!prepare.is_empty()) {
      const TaskId prepared = rank.Launch(reduce_, prepare.work(), "divide " + name);
      if (is_copied) {
        rank.graph().AddMemoryEvent(prepared, /*at_end=*/false, "reduce_buffers", bytes);
        ChangeGradient(rank, g, Bytes{} - states_[g].gradient, prepared);
      }
    }
    const CollectiveOp op = Shards() ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce;
    const TaskId reduced =
        rank.LaunchCollective(reduce_, {op, sharding_.reduce, bytes, shard_group_},
                              std::string(Shards() ? "reduce_scatter " : "all_reduce ") + name,
                              Site::kGradientReduce, reduce_communicator_);
    if (is_copied) {
      rank.graph().AddMemoryEvent(reduced, /*at_end=*/true, "reduce_buffers", Bytes{} - bytes);
    } else {
      ChangeGradient(rank, g, Bytes{} - states_[g].gradient, reduced);
    }
    FinishReduce(moment, g, elements / sharding_.shards);
  }

  // Hybrid: the shard is summed over the copies on a stream of its own. Then it is divided, cast
  // and added to what earlier micro-steps left.
  void FinishReduce(const Moment& moment, std::size_t g, std::int64_t shard) {
    RankProgram& rank = moment.rank;
    const std::string& name = GroupAt(g).name;
    StreamId last = reduce_;
    if (all_reduce_ != kNoId<StreamId>) {
      last = all_reduce_;
      rank.Wait(all_reduce_, rank.Record(reduce_));
      rank.LaunchCollective(all_reduce_,
                            {CollectiveOp::kAllReduce, sharding_.reduce,
                             SizeOf(sharding_.reduce, shard), replicate_group_},
                            "all_reduce " + name, Site::kGradientReduce);
    }
    KernelSum finish;
    if (post_divide_ > 1) finish.Add(CastWork(sharding_.reduce, sharding_.reduce, shard));
    if (sharding_.reduce != sharding_.storage) {
      finish.Add(CastWork(sharding_.reduce, sharding_.storage, shard));
    }
    if (std::exchange(states_[g].gradient_of, moment.step) == moment.step) {
      finish.Add(AccumulateWork(sharding_.storage, shard));
    }
    if (!finish.is_empty()) rank.Launch(last, finish.work(), "divide shard " + name);
  }

  const Fsdp1Plan& plan_;
  const bool is_ideal_;
  const Sharding sharding_;
  double pre_divide_, post_divide_;
  GroupId shard_group_;
  GroupId replicate_group_;
  std::vector<UnitState> states_;
  std::deque<StreamEvent> free_events_;  // oldest first
  StreamId cast_ = kNoId<StreamId>;
  StreamId gather_, reduce_;
  StreamId all_reduce_ = kNoId<StreamId>;
  StreamId communicator_, reduce_communicator_ = kNoId<StreamId>;
};

}  // namespace

std::unique_ptr<Strategy> MakeFsdp1(const StrategyContext& context) {
  return std::make_unique<Fsdp1>(context);
}

}  // namespace stepsim
