// DeepSpeed ZeRO stages 1 and 2, hook by hook: reference/schedules "DeepSpeed ZeRO" as retold in
// models/README.md, "ZeRO".
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

class Zero12 : public Strategy {
 public:
  explicit Zero12(const StrategyContext& context)
      : plan_(context.job.plan.zero),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        group_(context.data_parallel),
        ranks_(context.job.gpus()),
        reduce_(plan_.overlaps() ? context.rank.AddStream("reduction") : context.rank.compute()) {
    const std::int64_t buffers = plan_.overlaps() ? 2 : 1;
    const std::int64_t elements = std::min(plan_.reduce_bucket_size, workload_.parameter_count());
    context.rank.graph().AddResidentMemory(context.rank.rank(), "buckets",
                                           SizeOf(sharding_.gather, elements * buffers));
  }

  // The bucket is reduced before a gradient that does not fit goes into the next one.
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    if (!Reduces(moment)) return;
    const std::int64_t elements =
        workload_.parameters[static_cast<std::size_t>(parameter)].elements;
    if (is_deferred()) {
      waiting_.push_back(parameter);
      return;
    }
    Add(moment.rank, parameter, elements);
  }

  void AfterLastBackward(const Moment& moment) override {
    if (!Reduces(moment)) return;
    RankProgram& rank = moment.rank;
    for (const std::int32_t p : waiting_) {
      Add(rank, p, workload_.parameters[static_cast<std::size_t>(p)].elements);
    }
    waiting_.clear();
    Flush(rank);
    if (plan_.overlaps()) rank.BlockHost(rank.Record(reduce_));  // a device-wide synchronise
  }

  // Blocking: nothing of the next forward overlaps with it.
  void AfterOptimizer(const Moment& moment) override {
    moment.rank.LaunchCollective(moment.rank.compute(),
                                 {CollectiveOp::kAllGather, sharding_.gather,
                                  SizeOf(sharding_.gather, workload_.parameter_count()), group_},
                                 "all_gather parameters", Site::kParameterGather);
  }

  // Stage 1 keeps whole gradients until the boundary; stage 2 adds up its partition.
  bool AccumulatesGradients(const Moment& moment) const override {
    return plan_.stage == 1 && !moment.is_first_microstep;
  }

 private:
  bool Reduces(const Moment& moment) const { return plan_.stage == 2 || moment.is_last_microstep; }
  // Stage 1 without overlap reduces everything after backward.
  bool is_deferred() const { return plan_.stage == 1 && !plan_.overlaps(); }

  void Add(RankProgram& rank, std::int32_t parameter, std::int64_t elements) {
    if (held_ > 0 && held_ + elements > plan_.reduce_bucket_size) Flush(rank);
    const Bytes bytes = SizeOf(sharding_.gather, elements);
    rank.Launch(rank.compute(), CopyWork(bytes, bytes),
                "copy " + workload_.parameters[static_cast<std::size_t>(parameter)].name);
    held_ += elements;
  }

  // The reduction waits for compute, and compute for all reductions that were issued earlier: at
  // most one of them overlaps.
  void Flush(RankProgram& rank) {
    if (held_ == 0) return;
    if (plan_.overlaps()) {
      const StreamEvent earlier = rank.Record(reduce_);
      rank.Wait(reduce_, rank.Record(rank.compute()));
      rank.Wait(rank.compute(), earlier);
    }
    Reduce(rank);
    held_ = 0;
  }

  void Reduce(RankProgram& rank) {
    const std::string name = fmt::format("bucket {}", ++buckets_);
    if (plan_.use_multi_rank_bucket_allreduce) {
      rank.LaunchCollective(
          reduce_,
          {CollectiveOp::kAllReduce, sharding_.reduce, SizeOf(sharding_.reduce, held_), group_},
          "all_reduce " + name, Site::kGradientReduce);
    } else {
      // One reduce for every rank whose partition the bucket touches.
      const std::int64_t partition =
          std::max<std::int64_t>(1, (workload_.parameter_count() + ranks_ - 1) / ranks_);
      for (std::int64_t left = held_; left > 0; left -= partition) {
        const Bytes bytes = SizeOf(sharding_.reduce, std::min(left, partition));
        rank.LaunchCollective(reduce_, {CollectiveOp::kReduce, sharding_.reduce, bytes, group_},
                              "reduce " + name, Site::kGradientReduce);
      }
    }
    const Bytes own = SizeOf(sharding_.gather, (held_ + ranks_ - 1) / ranks_);
    rank.Launch(reduce_, CopyWork(own, own), "keep own slice " + name);
  }

  const ZeroPlan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  GroupId group_;
  std::int64_t ranks_;
  StreamId reduce_;
  std::int64_t held_ = 0;  // elements in the open bucket
  int buckets_ = 0;        // reduced so far
  std::vector<std::int32_t> waiting_;
};

}  // namespace

std::unique_ptr<Strategy> MakeZero(const StrategyContext& context) {
  if (context.job.plan.zero.stage == 3) return MakeZero3(context);
  return std::make_unique<Zero12>(context);
}

}  // namespace stepsim
