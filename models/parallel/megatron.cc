// Megatron-LM's data parallelism, hook by hook: models/README.md,
// "Megatron data parallel".
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/megatron_buckets.h"
#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

// What has happened to a bucket in this step.
struct BucketState {
  std::size_t missing = 0;  // gradients that have not arrived
  bool is_reduced = false;  // on its way
  bool is_summed = false;   // fp32 accumulation: by its owner
  StreamEvent reduced;
  bool is_gathered = false;  // and waited for
  StreamEvent gathered;
};

// The first chunk of the first pipeline rank alone has buckets of a limited size.
MegatronPlan BucketingOf(MegatronPlan plan, std::int32_t stage) {
  if (stage == 0) return plan;
  plan.ddp_bucket_size = std::numeric_limits<std::int64_t>::max();
  plan.ddp_num_buckets.reset();
  return plan;
}

// Buckets of one kind: who sums them and who holds which part of them.
struct Buffer {
  GroupId group{};
  GroupId owners{};         // of one copy of the optimizer states
  GroupId across{};         // ... and who owns the same part of the others
  std::int64_t shards = 1;  // owners, how many they are
  StreamId nccl = kNoId<StreamId>;
  StreamId gather = kNoId<StreamId>;
};

class Megatron : public Strategy {
 public:
  explicit Megatron(const StrategyContext& context)
      : plan_(context.job.plan.megatron),
        is_ideal_(context.job.plan.ideal && plan_.use_distributed_optimizer &&
                  !plan_.is_first_iteration()),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        dense_(DenseBuffer(context)),
        experts_(ExpertBuffer(context)),
        planned_(PlanMegatronBuckets(BucketingOf(plan_, context.stage), workload_,
                                     context.job.gradient_ranks(), dense_.shards, experts_.shards)),
        states_(planned_.buckets.size()) {
    for (std::size_t b = 0; b < states_.size(); ++b) Reset(b);
  }

  // A module's forward pre-hook: its bucket must be there; then the next one is started.
  void BeforeForwardOf(const Moment& moment, std::int32_t, const Operator& op) override {
    if (!GathersInForward() || !moment.is_first_microstep) return;
    for (const std::int32_t p : op.parameters_ready) {
      const std::size_t b = BucketOf(p);
      BucketState& state = states_[b];
      if (std::exchange(state.is_gathered, true)) continue;
      if (state.gathered.last == kNoId<TaskId>) Gather(moment.rank, b);
      moment.rank.Wait(moment.rank.compute(), std::exchange(state.gathered, {}));
      if (HasNext(b) && !is_ideal_ && IsNotIssued(states_[b - 1])) Gather(moment.rank, b - 1);
    }
  }

  void BeforeForward(const Moment& moment, std::int32_t unit) override {
    if (unit != 0 || !moment.is_first_microstep) return;
    for (BucketState& state : states_) state.is_gathered = false;
    if (is_ideal_) GatherBeforehand(moment.rank);
  }

  // The hook adds .grad to the main gradient; only the last micro-step counts readiness.
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    RankProgram& rank = moment.rank;
    const ParameterTensor& tensor = workload_.parameters[static_cast<std::size_t>(parameter)];
    const Bytes gradient = SizeOf(sharding_.gather, tensor.elements);
    const Bytes main = SizeOf(sharding_.gradient, tensor.elements);
    const TaskId produced = rank.Record(rank.compute()).last;
    const TaskId added =
        rank.Launch(rank.compute(), CopyWork(gradient + main, main), "main_grad " + tensor.name);
    rank.graph().AddMemoryEvent(produced, /*at_end=*/true, "unsharded_gradients", gradient);
    rank.graph().AddMemoryEvent(added, /*at_end=*/true, "unsharded_gradients", Bytes{} - gradient);
    if (!moment.is_last_microstep || !Overlaps()) return;
    const std::size_t b = BucketOf(parameter);
    if (--states_[b].missing == 0) Reduce(rank, b);
  }

  // Aligned: a chunk's buckets from the output side, ahead of its first forward.
  void UnshardChunk(const Moment& moment) override {
    if (!GathersInForward() || is_ideal_) return;
    for (std::size_t b = 0; b < states_.size(); ++b) {
      if (states_[b].gathered.last == kNoId<TaskId>) Gather(moment.rank, b);
    }
  }

  void StartReduction(const Moment& moment) override {
    for (std::size_t b = 0; b < states_.size(); ++b) {
      if (!states_[b].is_reduced) Reduce(moment.rank, b);
    }
  }

  // In order, whatever the order in which they were issued.
  void BeforeOptimizer(const Moment& moment) override {
    RankProgram& rank = moment.rank;
    for (std::size_t b = 0; b < states_.size(); ++b) {
      if (!states_[b].is_reduced) Reduce(rank, b);
      Finish(rank, b);
      Reset(b);
    }
    previous_ = kNone;
  }

  void AfterOptimizer(const Moment& moment) override {
    if (!plan_.use_distributed_optimizer || plan_.overlap_param_gather || is_ideal_) return;
    RankProgram& rank = moment.rank;
    for (std::size_t b = 0; b < states_.size(); ++b) {
      Gather(rank, b);
      rank.Wait(rank.compute(), std::exchange(states_[b].gathered, {}));
    }
  }

  bool AccumulatesGradients(const Moment&) const override { return false; }  // in main_grad

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Buffer DenseBuffer(const StrategyContext& context) const {
    Buffer buffer{context.dense.all, context.dense.all};
    buffer.shards = context.job.gradient_ranks() / instances();
    if (instances() > 1) {
      buffer.owners = context.groups.Part(context.global_rank, buffer.shards, 1, "instance",
                                          "one copy of the optimizer states");
      buffer.across = context.groups.Part(context.global_rank, instances(), buffer.shards,
                                          "instances", "the same part of every copy");
    }
    AddStreams(context.rank, instances() > 1 ? "communication" : "nccl dp", &buffer);
    return buffer;
  }

  // Experts that are dealt out have a group of their own, and its communicator.
  Buffer ExpertBuffer(const StrategyContext& context) const {
    if (!context.job.plan.has_expert_mesh()) return {};
    Buffer buffer;
    buffer.group = buffer.owners = context.experts.all;
    buffer.shards = context.job.expert_gradient_ranks() / instances();
    if (instances() > 1) {
      buffer.owners =
          context.groups.PartOfExperts(context.global_rank, buffer.shards, 1, "edp instance",
                                       "one copy of the experts' optimizer states");
      buffer.across = context.groups.PartOfExperts(context.global_rank, instances(), buffer.shards,
                                                   "edp instances", "the same part of every copy");
    }
    AddStreams(context.rank, instances() > 1 ? "communication" : "nccl edp", &buffer);
    return buffer;
  }

  void AddStreams(RankProgram& rank, const std::string& name, Buffer* buffer) const {
    buffer->nccl = rank.AddStream(name);
    buffer->gather =
        is_ideal_ ? rank.AddStream(name + " gather", /*has_queue=*/false) : buffer->nccl;
  }

  const Buffer& BufferOf(std::size_t b) const {
    return planned_.buckets[b].is_expert ? experts_ : dense_;
  }
  // The bucket that forward reaches next.
  bool HasNext(std::size_t b) const {
    return b > 0 && planned_.buckets[b - 1].is_expert == planned_.buckets[b].is_expert;
  }

  std::int64_t instances() const { return plan_.num_distributed_optimizer_instances; }
  // In iteration 1 the counts are being learned, and parameters are as they were made.
  bool Overlaps() const { return plan_.overlap_grad_reduce && !plan_.is_first_iteration(); }
  bool GathersInForward() const {
    return is_ideal_ || (plan_.use_distributed_optimizer && plan_.overlap_param_gather &&
                         !plan_.is_first_iteration());
  }
  static bool IsNotIssued(const BucketState& state) {
    return !state.is_gathered && state.gathered.last == kNoId<TaskId>;
  }
  std::size_t BucketOf(std::int32_t p) const {
    return planned_.of_parameter[static_cast<std::size_t>(p)];
  }
  std::int64_t ElementsOf(std::size_t b) const { return planned_.buckets[b].elements; }
  std::string NameOf(std::size_t b) const {
    return fmt::format("bucket {}/{}", b + 1, states_.size());
  }

  void Reset(std::size_t b) {
    states_[b].missing = planned_.buckets[b].parameters.size();
    states_[b].is_reduced = states_[b].is_summed = false;
  }

  // Scaled on the compute stream, then summed; the NCCL stream waits for compute.
  void Reduce(RankProgram& rank, std::size_t b) {
    const Bytes bytes = SizeOf(sharding_.reduce, ElementsOf(b));
    const Buffer& buffer = BufferOf(b);
    if (plan_.reduce_scatter_with_fp32_accumulation && previous_ != kNone) Finish(rank, previous_);
    if (!plan_.average_in_collective) {
      rank.Launch(rank.compute(), CopyWork(bytes, bytes), "scale " + NameOf(b));
    }
    rank.Wait(buffer.nccl, rank.Record(rank.compute()));
    if (plan_.reduce_scatter_with_fp32_accumulation) {
      Exchange(rank, b, bytes);
    } else if (plan_.use_distributed_optimizer) {
      const TaskId scattered =
          Launch(rank, b, CollectiveOp::kReduceScatter, bytes, buffer.owners, "reduce_scatter ");
      if (instances() > 1) {
        const Bytes part = SizeOf(sharding_.reduce, ElementsOf(b) / buffer.shards);
        rank.graph().AddDependency(scattered,
                                   Launch(rank, b, CollectiveOp::kAllReduce, part, buffer.across,
                                          "all_reduce across instances "));
      }
    } else {
      Launch(rank, b, CollectiveOp::kAllReduce, bytes, buffer.group, "all_reduce ");
    }
    states_[b].reduced = rank.Record(buffer.nccl);
    states_[b].is_reduced = true;
    previous_ = b;
  }

  // Every rank gets all values of its part, to sum them itself.
  void Exchange(RankProgram& rank, std::size_t b, Bytes bytes) {
    const TaskId sent =
        Launch(rank, b, CollectiveOp::kAllToAll, bytes, BufferOf(b).owners, "all_to_all ");
    rank.graph().AddMemoryEvent(sent, /*at_end=*/false, "buckets", bytes);
  }

  TaskId Launch(RankProgram& rank, std::size_t b, CollectiveOp op, Bytes bytes, GroupId group,
                const std::string& what) {
    return rank.LaunchCollective(BufferOf(b).nccl, {op, sharding_.reduce, bytes, group},
                                 what + NameOf(b), Site::kGradientReduce);
  }

  // Compute waits; with fp32 accumulation it then sums what arrived.
  void Finish(RankProgram& rank, std::size_t b) {
    BucketState& state = states_[b];
    if (state.is_summed) return;
    rank.Wait(rank.compute(), state.reduced);
    if (!plan_.reduce_scatter_with_fp32_accumulation) return;
    const Bytes bytes = SizeOf(sharding_.reduce, ElementsOf(b));
    const TaskId summed =
        rank.Launch(rank.compute(),
                    CopyWork(bytes, SizeOf(sharding_.gradient, ElementsOf(b) / BufferOf(b).shards)),
                    "sum " + NameOf(b));
    rank.graph().AddMemoryEvent(summed, /*at_end=*/true, "buckets", Bytes{} - bytes);
    state.is_summed = true;
  }

  // plan.ideal: all buckets in the order of forward, as soon as the optimizer is done.
  void GatherBeforehand(RankProgram& rank) {
    rank.LaunchBeforehand(true);
    for (std::size_t b = states_.size(); b-- > 0;) Gather(rank, b);
    rank.LaunchBeforehand(false);
  }

  void Gather(RankProgram& rank, std::size_t b) {
    const std::int64_t fp8 = planned_.buckets[b].fp8;
    const Bytes bytes = SizeOf(sharding_.gather, ElementsOf(b) - fp8) + SizeOf(DType::kFp8, fp8);
    const Buffer& buffer = BufferOf(b);
    rank.Wait(buffer.gather, rank.Record(rank.compute()));
    rank.LaunchCollective(buffer.gather,
                          {CollectiveOp::kAllGather, sharding_.gather, bytes, buffer.owners},
                          "all_gather " + NameOf(b), Site::kParameterGather);
    states_[b].gathered = rank.Record(buffer.gather);
  }

  const MegatronPlan& plan_;
  const bool is_ideal_;
  const Sharding sharding_;
  const Workload& workload_;
  Buffer dense_;
  Buffer experts_;
  MegatronBuckets planned_;
  std::vector<BucketState> states_;  // of its buckets
  std::size_t previous_ = kNone;     // reduced last
};

}  // namespace

std::unique_ptr<Strategy> MakeMegatron(const StrategyContext& context) {
  return std::make_unique<Megatron>(context);
}

}  // namespace stepsim
