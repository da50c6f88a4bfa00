// DeepSpeed ZeRO stages 1 and 2, hook by hook: models/README.md,
// "ZeRO".
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/parallel/zero_partition.h"
#include "models/parallel/zero_step.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

class Zero12 : public Strategy {
 public:
  explicit Zero12(const StrategyContext& context)
      : job_(context.job),
        plan_(context.job.plan.zero),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        group_(context.dense.all),
        ranks_(context.job.gradient_ranks()),
        partition_(workload_, ranks_, plan_.round_robin_gradients),
        reduce_(plan_.overlaps() ? context.rank.AddStream("reduction") : context.rank.compute()) {
    if (!plan_.contiguous_gradients) return;
    const std::int64_t buffers = plan_.overlaps() ? 2 : 1;
    context.rank.graph().AddResidentMemory(
        context.rank.rank(), "buckets",
        SizeOf(sharding_.gather, plan_.reduce_bucket_size * buffers));
  }

  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    if (plan_.stage == 2) KeepUntilReduced(moment.rank, parameter);
    if (Reduces(moment) && !is_deferred()) Add(moment.rank, parameter);
  }

  void AfterLastBackward(const Moment& moment) override {
    if (!Reduces(moment)) return;
    RankProgram& rank = moment.rank;
    if (is_deferred()) {
      for (std::size_t p = 0; p < workload_.parameters.size(); ++p) {
        Add(rank, static_cast<std::int32_t>(p));
      }
    }
    Flush(rank);
    if (plan_.overlaps()) SynchronizeDevice(rank);
    if (plan_.stage == 2 && !moment.is_first_microstep) {
      rank.Launch(rank.compute(),
                  AccumulateWork(sharding_.gradient, partition_.elements_per_rank()),
                  "accumulate partition");
    }
  }

  void BeforeOptimizer(const Moment& moment) override {
    LaunchBeforeOptimizer(moment.rank, Step());
  }

  // Blocking: nothing of the next forward overlaps with it.
  void AfterOptimizer(const Moment& moment) override {
    EndOptimizer(moment.rank, Step());
    if (!plan_.allgather_partitions) {
      for (std::int64_t r = 0; r < ranks_; ++r) {
        GatherParameters(moment.rank, CollectiveOp::kBroadcast, partition_.elements_per_rank());
      }
      return;
    }
    std::int64_t left = partition_.padded_elements();
    const std::int64_t parts = plan_.allgather_into_tensor
                                   ? 1
                                   : std::max<std::int64_t>(1, left / plan_.allgather_bucket_size);
    const std::int64_t part = partition_.elements_per_rank() / parts * ranks_;
    for (std::int64_t i = 1; i < parts; ++i, left -= part) {
      GatherParameters(moment.rank, CollectiveOp::kAllGather, part);
    }
    GatherParameters(moment.rank, CollectiveOp::kAllGather, left);
  }

  // Stage 1 keeps whole gradients until the boundary; stage 2 adds up its partition.
  bool AccumulatesGradients(const Moment& moment) const override {
    return plan_.stage == 1 && !moment.is_first_microstep;
  }

 private:
  ZeroStep Step() const {
    const auto tensors = static_cast<std::int64_t>(workload_.parameters.size());
    return {.job = job_,
            .group = group_,
            .elements = partition_.elements_per_rank(),
            .tensors = std::max<std::int64_t>(1, tensors / ranks_),
            .at_a_time = partition_.elements_per_rank()};
  }

  bool Reduces(const Moment& moment) const { return plan_.stage == 2 || moment.is_last_microstep; }
  // Stage 1 without overlap reduces everything after backward, in the order of registration.
  bool is_deferred() const { return plan_.stage == 1 && !plan_.overlaps(); }

  const ParameterTensor& TensorAt(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)];
  }
  Bytes GradientBytes(std::int32_t p) const {
    return SizeOf(sharding_.gather, TensorAt(p).elements);
  }
  // What is larger than the bucket is reduced where it lies.
  bool IsCopied(std::int32_t p) const {
    return plan_.contiguous_gradients && TensorAt(p).elements <= plan_.reduce_bucket_size;
  }

  void KeepUntilReduced(RankProgram& rank, std::int32_t p) {
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "unsharded_gradients", GradientBytes(p));
  }
  void Drop(RankProgram& rank, std::int32_t p, TaskId after) {
    if (plan_.stage == 1) return;  // kept whole
    rank.graph().AddMemoryEvent(after, /*at_end=*/true, "unsharded_gradients",
                                Bytes{} - GradientBytes(p));
  }

  // The bucket is reduced before a gradient that does not fit goes into the next one.
  void Add(RankProgram& rank, std::int32_t p) {
    if (held_ > 0 && held_ + TensorAt(p).elements > plan_.reduce_bucket_size) Flush(rank);
    if (IsCopied(p)) {
      const TaskId copied = rank.Launch(
          rank.compute(), CopyWork(GradientBytes(p), GradientBytes(p)), "copy " + TensorAt(p).name);
      Drop(rank, p, copied);
    }
    bucket_.push_back(p);
    held_ += TensorAt(p).elements;
  }

  void Flush(RankProgram& rank) {
    if (bucket_.empty()) return;
    const std::string name = fmt::format("bucket {}", ++buckets_);
    if (!plan_.contiguous_gradients) {
      if (plan_.overlaps()) SynchronizeDevice(rank);
      ReduceCopies(rank, name);
    } else {
      if (plan_.overlaps()) KeepOneInFlight(rank);
      if (ReducesToOwners(plan_)) {
        ReduceToOwners(rank, name);
      } else {
        AllReduce(rank, name);
      }
      const Bytes own = SizeOf(sharding_.gather, (held_ + ranks_ - 1) / ranks_);
      rank.Launch(reduce_, CopyWork(own, own), "keep own slice " + name);
    }
    for (const std::int32_t p : bucket_) {
      if (!IsCopied(p)) Drop(rank, p, rank.Record(reduce_).last);
    }
    bucket_.clear();
    held_ = 0;
  }

  // The reduction waits for compute, and compute for all reductions that were issued earlier: at
  // most one of them overlaps.
  void KeepOneInFlight(RankProgram& rank) {
    const StreamEvent earlier = rank.Record(reduce_);
    rank.Wait(reduce_, rank.Record(rank.compute()));
    rank.Wait(rank.compute(), earlier);
  }

  void SynchronizeDevice(RankProgram& rank) {
    rank.BlockHost(rank.Record(rank.compute()));
    rank.BlockHost(rank.Record(reduce_));
  }

  void AllReduce(RankProgram& rank, const std::string& name) {
    // Without reduce_scatter the bucket goes as it lies; else its slices are put together first.
    Divide(rank, held_, /*flattens=*/plan_.reduce_scatter, name);
    Reduce(rank, CollectiveOp::kAllReduce, held_, "all_reduce " + name);
  }

  // One call for each owner; with overlap the host synchronises before each.
  void ReduceToOwners(RankProgram& rank, const std::string& name) {
    Divide(rank, held_, /*flattens=*/true, name);
    for (const std::int64_t elements : partition_.ElementsByOwner(bucket_)) {
      if (plan_.overlaps()) SynchronizeDevice(rank);
      Reduce(rank, CollectiveOp::kReduce, elements, "reduce " + name);
    }
  }

  // Put together, reduced, and copied back into the gradients.
  void ReduceCopies(RankProgram& rank, const std::string& name) {
    Divide(rank, held_, /*flattens=*/true, name);
    Reduce(rank, CollectiveOp::kAllReduce, held_, "all_reduce " + name);
    const Bytes bytes = SizeOf(sharding_.gather, held_);
    ComputeWork back = CopyWork(bytes, bytes);
    back.kernels = static_cast<std::int32_t>(bucket_.size());
    rank.Launch(reduce_, back, "copy back " + name);
  }

  void Divide(RankProgram& rank, std::int64_t elements, bool flattens, const std::string& name) {
    rank.Launch(reduce_, DivideWork(sharding_.gather, sharding_.reduce, elements, flattens),
                "divide " + name);
  }

  void Reduce(RankProgram& rank, CollectiveOp op, std::int64_t elements, std::string name) {
    rank.LaunchCollectiveOfLast(reduce_,
                                {op, sharding_.reduce, SizeOf(sharding_.reduce, elements), group_},
                                std::move(name), Site::kGradientReduce);
  }

  void GatherParameters(RankProgram& rank, CollectiveOp op, std::int64_t elements) {
    rank.LaunchCollectiveOfLast(
        rank.compute(), {op, sharding_.gather, SizeOf(sharding_.gather, elements), group_},
        op == CollectiveOp::kBroadcast ? "broadcast parameters" : "all_gather parameters",
        Site::kParameterGather);
  }

  const JobSpec& job_;
  const ZeroPlan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  GroupId group_;
  std::int64_t ranks_;
  ZeroPartition partition_;
  StreamId reduce_;
  std::vector<std::int32_t> bucket_;  // in order of arrival
  std::int64_t held_ = 0;             // elements in it
  int buckets_ = 0;                   // reduced so far
};

}  // namespace

std::unique_ptr<Strategy> MakeZero(const StrategyContext& context) {
  if (context.job.plan.zero.stage == 3) return MakeZero3(context);
  return std::make_unique<Zero12>(context);
}

}  // namespace stepsim
