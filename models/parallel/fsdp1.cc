// PyTorch FSDP1 (FullyShardedDataParallel), hook by hook: reference/schedules "FSDP1" as retold in
// models/README.md, "FSDP1".
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "models/parallel/grouped_strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

class Fsdp1 : public GroupedStrategy {
 public:
  explicit Fsdp1(const StrategyContext& context)
      : GroupedStrategy(GroupUnits(context.workload, context.job.plan.fsdp1.wrap,
                                   context.job.plan.fsdp1.wrap_min_parameters)),
        plan_(context.job.plan.fsdp1),
        sharding_(ShardingOf(context.job)),
        shard_group_(context.shard),
        replicate_group_(context.replicate),
        is_unsharded_(group_count(), 0),
        gradients_(group_count()),
        gather_(context.rank.AddStream("unshard")),
        reduce_(context.rank.AddStream("post_backward")),
        communicator_(context.rank.AddCommunicator("communicator shard")) {
    reduce_communicator_ = plan_.separate_reduce_group
                               ? context.rank.AddCommunicator("communicator reduce")
                               : communicator_;
    if (CastsShards()) cast_ = context.rank.AddStream("pre_unshard");
    if (sharding_.replicas > 1 && sharding_.shards > 1) {
      all_reduce_ = context.rank.AddStream("all_reduce");
    }
  }

  void AfterLastBackward(const Moment& moment) override {
    RankProgram& rank = moment.rank;
    PostBackward(moment, kRoot);
    if (!Reduces(moment)) return;
    rank.Wait(rank.compute(), rank.Record(reduce_));
    if (all_reduce_ != kNoId<StreamId>) rank.Wait(rank.compute(), rank.Record(all_reduce_));
  }

  // The flat gradient is accumulated in place while nothing is reduced.
  bool AccumulatesGradients(const Moment& moment) const override {
    return plan_.no_sync && !moment.is_first_microstep;
  }

 private:
  static constexpr std::size_t kMostFrees = 2;  // the rate limiter's constant

  bool Reduces(const Moment& moment) const { return !plan_.no_sync || moment.is_last_microstep; }
  bool Shards() const { return sharding_.shards > 1; }
  bool CastsShards() const { return Shards() && sharding_.gather != sharding_.storage; }
  bool FreesAfterForward() const {
    return plan_.sharding_strategy == ShardingStrategy::kFullShard ||
           plan_.sharding_strategy == ShardingStrategy::kHybridShard;
  }
  Bytes Unsharded(std::size_t g, DType dtype) const {
    return SizeOf(dtype, PaddedElements(GroupAt(g).elements, sharding_.shards));
  }

  void BeginForward(RankProgram& rank) override {
    const StreamEvent now = rank.Record(rank.compute());
    rank.Wait(gather_, now);
    if (CastsShards()) rank.Wait(cast_, now);
  }

  void PreForward(RankProgram& rank, std::size_t g) override {
    Unshard(rank, g);
    rank.Wait(rank.compute(), rank.Record(gather_));
    if (plan_.forward_prefetch && g + 1 < group_count()) Unshard(rank, g + 1);
  }

  // The root is never freed between forward and backward.
  void PostForward(RankProgram& rank, std::size_t g) override {
    if (g != kRoot && FreesAfterForward()) Free(rank, g);
  }

  void PreBackward(RankProgram& rank, std::size_t g) override {
    Unshard(rank, g);
    rank.Wait(rank.compute(), rank.Record(gather_));
    if (plan_.backward_prefetch == BackwardPrefetch::kPre) UnshardNextOfBackward(rank, g);
  }

  void UnshardNextOfBackward(RankProgram& rank, std::size_t g) {
    if (const auto next = NextOfBackward(g, 1)) Unshard(rank, *next);
  }

  void Unshard(RankProgram& rank, std::size_t g) {
    if (!Shards() || is_unsharded_[g] != 0 || GroupAt(g).elements == 0) return;
    is_unsharded_[g] = 1;
    const std::string& name = GroupAt(g).name;
    if (CastsShards()) {
      const std::int64_t shard =
          PaddedElements(GroupAt(g).elements, sharding_.shards) / sharding_.shards;
      rank.Launch(cast_, CastWork(sharding_.storage, sharding_.gather, shard),
                  "cast shard " + name);
      rank.Wait(gather_, rank.Record(cast_));
    }
    if (plan_.limit_all_gathers && free_events_.size() >= kMostFrees) {
      rank.BlockHost(free_events_.front());
      free_events_.pop_front();
    }
    const Bytes bytes = Unsharded(g, sharding_.gather);
    const TaskId gathered = rank.LaunchCollective(
        gather_, {CollectiveOp::kAllGather, sharding_.gather, bytes, shard_group_},
        "all_gather " + name, Site::kParameterGather, communicator_);
    rank.graph().AddMemoryEvent(gathered, /*at_end=*/false, "unsharded_parameters", bytes);
  }

  // What compute has been given to do is the last use; the limiter counts from there.
  void Free(RankProgram& rank, std::size_t g) {
    if (is_unsharded_[g] == 0) return;
    is_unsharded_[g] = 0;
    const StreamEvent used = rank.Record(rank.compute());
    rank.graph().AddMemoryEvent(used.last, /*at_end=*/true, "unsharded_parameters",
                                Bytes{} - Unsharded(g, sharding_.gather));
    free_events_.push_back(used);
  }

  void PostBackward(const Moment& moment, std::size_t g) override {
    RankProgram& rank = moment.rank;
    if (GroupAt(g).elements == 0) return;
    if (Reduces(moment) || FreesAfterForward()) Free(rank, g);
    if (plan_.backward_prefetch == BackwardPrefetch::kPost && g != kRoot) {
      UnshardNextOfBackward(rank, g);
    }
    KeepGradient(rank, g);
    if (Reduces(moment)) Reduce(moment, g);
  }

  // The flat gradient of a unit, until it has been reduced.
  void KeepGradient(RankProgram& rank, std::size_t g) {
    if (gradients_[g].value > 0) return;
    gradients_[g] = Unsharded(g, sharding_.gather);
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "unsharded_gradients", gradients_[g]);
  }

  void Reduce(const Moment& moment, std::size_t g) {
    RankProgram& rank = moment.rank;
    const std::string& name = GroupAt(g).name;
    const std::int64_t elements = PaddedElements(GroupAt(g).elements, sharding_.shards);
    rank.Wait(reduce_, rank.Record(rank.compute()));
    // Cast and divided by about the square root of the ranks, in one place or two.
    rank.Launch(reduce_, CastWork(sharding_.gather, sharding_.reduce, elements), "divide " + name);
    const CollectiveOp op = Shards() ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce;
    const TaskId reduced = rank.LaunchCollective(
        reduce_, {op, sharding_.reduce, SizeOf(sharding_.reduce, elements), shard_group_},
        std::string(Shards() ? "reduce_scatter " : "all_reduce ") + name, Site::kGradientReduce,
        reduce_communicator_);
    rank.graph().AddMemoryEvent(reduced, /*at_end=*/true, "unsharded_gradients",
                                Bytes{} - gradients_[g]);
    gradients_[g] = {};
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
    ComputeWork finish = CastWork(sharding_.reduce, sharding_.storage, shard);
    if (!plan_.no_sync && !moment.is_first_microstep) {
      finish.bytes += AccumulateWork(sharding_.storage, shard).bytes;
      finish.kernels = 2;
    }
    rank.Launch(last, finish, "divide shard " + name);
  }

  const Fsdp1Plan& plan_;
  const Sharding sharding_;
  GroupId shard_group_;
  GroupId replicate_group_;
  std::vector<char> is_unsharded_;
  std::vector<Bytes> gradients_;         // unsharded, alive
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
