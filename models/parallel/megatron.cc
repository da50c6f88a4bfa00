// Megatron-LM's data parallelism, hook by hook: reference/schedules "Megatron-LM" as retold in
// models/README.md, "Megatron data parallel".
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

struct MainBucket {
  std::vector<std::int32_t> parameters;
  std::int64_t elements = 0;
  std::size_t missing = 0;  // gradients that have not arrived
  StreamEvent reduced;
  StreamEvent gathered;
  bool is_gathered = false;
};

std::int64_t RoundUp(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

class Megatron : public Strategy {
 public:
  explicit Megatron(const StrategyContext& context)
      : plan_(context.job.plan.megatron),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        group_(context.data_parallel),
        ranks_(context.job.gpus()),
        nccl_(context.rank.AddStream("nccl dp")),
        bucket_of_(workload_.parameters.size()) {
    PlanBuckets();
  }

  // A module's forward pre-hook: its bucket must be there; then the next one is started.
  void BeforeForwardOf(const Moment& moment, std::int32_t, const Operator& op) override {
    if (!GathersInForward() || !moment.is_first_microstep) return;
    for (const std::int32_t p : op.parameters_ready) {
      const std::size_t b = BucketOf(p);
      if (buckets_[b].is_gathered) continue;
      buckets_[b].is_gathered = true;
      if (buckets_[b].gathered.last == kNoId<TaskId>) Gather(moment.rank, b);
      moment.rank.Wait(moment.rank.compute(), buckets_[b].gathered);
      buckets_[b].gathered = {};
      if (b > 0 && !buckets_[b - 1].is_gathered) Gather(moment.rank, b - 1);
    }
  }

  void BeforeForward(const Moment& moment, std::int32_t unit) override {
    if (unit != 0 || !moment.is_first_microstep) return;
    for (MainBucket& bucket : buckets_) bucket.is_gathered = false;
  }

  // The hook adds .grad to the main gradient; only the last micro-step counts readiness.
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    RankProgram& rank = moment.rank;
    const ParameterTensor& tensor = workload_.parameters[static_cast<std::size_t>(parameter)];
    const Bytes gradient = SizeOf(sharding_.gather, tensor.elements);
    const Bytes main = SizeOf(sharding_.gradient, tensor.elements);
    rank.Launch(rank.compute(), CopyWork(gradient + main, main), "main_grad " + tensor.name);
    if (!moment.is_last_microstep || !plan_.overlap_grad_reduce) return;
    MainBucket& bucket = buckets_[BucketOf(parameter)];
    if (--bucket.missing == 0) Reduce(rank, bucket);
  }

  void AfterLastBackward(const Moment& moment) override {
    if (!moment.is_last_microstep) return;
    RankProgram& rank = moment.rank;
    for (MainBucket& bucket : buckets_) {
      if (!plan_.overlap_grad_reduce) Reduce(rank, bucket);
      rank.Wait(rank.compute(), bucket.reduced);
      bucket.missing = bucket.parameters.size();
    }
  }

  void AfterOptimizer(const Moment& moment) override {
    if (!plan_.use_distributed_optimizer || GathersInForward()) return;
    RankProgram& rank = moment.rank;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      Gather(rank, b);
      rank.Wait(rank.compute(), buckets_[b].gathered);
      buckets_[b].gathered = {};
    }
  }

  bool AccumulatesGradients(const Moment&) const override { return false; }  // in main_grad

 private:
  bool GathersInForward() const {
    return plan_.use_distributed_optimizer && plan_.overlap_param_gather;
  }
  std::size_t BucketOf(std::int32_t p) const { return bucket_of_[static_cast<std::size_t>(p)]; }

  // Reverse registration order; the crossing parameter is inside. With the distributed optimizer
  // parameters begin at multiples of 64 elements and buckets end at multiples of lcm(ranks, 128).
  void PlanBuckets() {
    const bool is_padded = plan_.use_distributed_optimizer;
    const std::int64_t limit = BucketLimit();
    MainBucket open;
    for (std::size_t i = workload_.parameters.size(); i-- > 0;) {
      if (is_padded) open.elements = RoundUp(open.elements, 64);
      open.parameters.push_back(static_cast<std::int32_t>(i));
      open.elements += workload_.parameters[i].elements;
      bucket_of_[i] = buckets_.size();
      if (open.elements >= limit || i == 0) {
        if (is_padded) open.elements = RoundUp(open.elements, std::lcm(ranks_, std::int64_t{128}));
        open.missing = open.parameters.size();
        buckets_.push_back(std::move(open));
        open = {};
      }
    }
  }

  std::int64_t BucketLimit() const {
    constexpr std::int64_t kLeast = 40'000'000, kPerRank = 1'000'000;
    if (!plan_.overlap_grad_reduce) return std::numeric_limits<std::int64_t>::max();
    return plan_.ddp_bucket_size.value_or(std::max(kLeast, kPerRank * ranks_));
  }

  std::string NameOf(const MainBucket& bucket) const {
    const auto index = static_cast<std::size_t>(&bucket - buckets_.data());
    return fmt::format("bucket {}/{}", index + 1, buckets_.size());
  }

  // Scaled on the compute stream, then summed; the NCCL stream waits for compute.
  void Reduce(RankProgram& rank, MainBucket& bucket) {
    const Bytes bytes = SizeOf(sharding_.reduce, bucket.elements);
    if (!plan_.average_in_collective) {
      rank.Launch(rank.compute(), CopyWork(bytes, bytes), "scale " + NameOf(bucket));
    }
    const bool scatters = plan_.use_distributed_optimizer;
    rank.Wait(nccl_, rank.Record(rank.compute()));
    rank.LaunchCollective(nccl_,
                          {scatters ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce,
                           sharding_.reduce, bytes, group_},
                          (scatters ? "reduce_scatter " : "all_reduce ") + NameOf(bucket),
                          Site::kGradientReduce);
    bucket.reduced = rank.Record(nccl_);
  }

  void Gather(RankProgram& rank, std::size_t b) {
    MainBucket& bucket = buckets_[b];
    rank.Wait(nccl_, rank.Record(rank.compute()));
    rank.LaunchCollective(nccl_,
                          {CollectiveOp::kAllGather, sharding_.gather,
                           SizeOf(sharding_.gather, bucket.elements), group_},
                          "all_gather " + NameOf(bucket), Site::kParameterGather);
    bucket.gathered = rank.Record(nccl_);
  }

  const MegatronPlan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  GroupId group_;
  std::int64_t ranks_;
  StreamId nccl_;
  std::vector<MainBucket> buckets_;     // in launch order: reverse registration
  std::vector<std::size_t> bucket_of_;  // parameter -> bucket
};

}  // namespace

std::unique_ptr<Strategy> MakeMegatron(const StrategyContext& context) {
  return std::make_unique<Megatron>(context);
}

}  // namespace stepsim
