// DeepSpeed ZeRO stage 3, hook by hook: models/README.md,
// "ZeRO". The unit is every module that owns parameters: one operator here, or a
// whole unit of the network where it is a leaf module.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/shard_groups.h"
#include "models/parallel/strategy.h"
#include "models/parallel/zero3_fetcher.h"
#include "models/parallel/zero_step.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

class Zero3 : public Strategy {
 public:
  explicit Zero3(const StrategyContext& context)
      : job_(context.job),
        plan_(context.job.plan.zero),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        group_(context.dense.all),
        communicator_(context.rank.AddCommunicator("communicator dp")),
        fetcher_(context, communicator_),
        reduce_(plan_.overlaps() ? context.rank.AddStream("reduce and partition")
                                 : context.rank.compute()),
        reduce_communicator_(plan_.separate_reduce_group || context.job.plan.ideal
                                 ? context.rank.AddCommunicator("communicator reduce")
                                 : communicator_) {
    if (!plan_.contiguous_gradients) return;
    context.rank.graph().AddResidentMemory(context.rank.rank(), "buckets",
                                           SizeOf(sharding_.gather, plan_.reduce_bucket_size));
  }

  void BeforeForward(const Moment& moment, std::int32_t unit) override {
    if (unit == 0) fetcher_.BeginMicrostep(moment);
    if (IsLeaf(unit)) fetcher_.Fetch(moment.rank);
  }
  void AfterForward(const Moment& moment, std::int32_t unit) override {
    if (IsLeaf(unit)) fetcher_.Release(moment.rank);
  }
  void BeforeForwardOf(const Moment& moment, std::int32_t unit, const Operator& op) override {
    if (IsModule(unit, op)) fetcher_.Fetch(moment.rank);
  }
  void AfterForwardOf(const Moment& moment, std::int32_t unit, const Operator& op) override {
    if (IsModule(unit, op)) fetcher_.Release(moment.rank);
  }
  void BeforeBackward(const Moment& moment, std::int32_t unit) override {
    leaf_ = IsLeaf(unit) ? unit : kNoLeaf;
    if (leaf_ != kNoLeaf) fetcher_.Fetch(moment.rank);
  }
  void BeforeBackwardOf(const Moment& moment, std::int32_t unit, const Operator& op) override {
    if (IsModule(unit, op)) fetcher_.Fetch(moment.rank);
  }
  void AfterBackwardOf(const Moment& moment, std::int32_t unit, const Operator& op) override {
    if (IsModule(unit, op)) fetcher_.Release(moment.rank);
  }

  // A checkpoint's rerun calls the modules' forward hooks again, of a leaf module around all of its
  // operators; the one whose backward it is has all of its parameters.
  void BeforeRerunOf(const Moment& moment, std::int32_t unit, const Operator& op) override {
    const bool begins =
        IsLeaf(unit) ? unit != leaf_ && &op == &OperatorsOf(unit).front() : UsesParameters(op);
    if (begins) fetcher_.Fetch(moment.rank);
  }
  void AfterRerunOf(const Moment& moment, std::int32_t unit, const Operator& op) override {
    const bool ends =
        IsLeaf(unit) ? unit != leaf_ && &op == &OperatorsOf(unit).back() : UsesParameters(op);
    if (ends) fetcher_.Release(moment.rank);
  }

  // Gradients of a leaf module are handed over when all of it is done.
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    moment.rank.graph().AddMemoryEvent(moment.rank.Record(moment.rank.compute()).last,
                                       /*at_end=*/true, "unsharded_gradients", BytesOf(parameter));
    if (leaf_ != kNoLeaf) {
      of_leaf_.push_back(parameter);
    } else {
      Add(moment, parameter);
    }
  }
  void AfterBackward(const Moment& moment, std::int32_t unit) override {
    if (!IsLeaf(unit)) return;
    for (const std::int32_t p : std::exchange(of_leaf_, {})) Add(moment, p);
    leaf_ = kNoLeaf;
    fetcher_.Release(moment.rank);
  }

  void AfterLastBackward(const Moment& moment) override {
    Reduce(moment);
    moment.rank.BlockHost(moment.rank.Record(reduce_));
  }

  void BeforeOptimizer(const Moment& moment) override {
    LaunchBeforeOptimizer(moment.rank, Step());
  }
  void AfterOptimizer(const Moment& moment) override {
    EndOptimizer(moment.rank, Step());
    fetcher_.AfterOptimizer(moment.rank);
  }

  // Partitions are added up behind each reduction.
  bool AccumulatesGradients(const Moment&) const override { return false; }

 private:
  static constexpr std::int32_t kNoLeaf = -1;

  ZeroStep Step() const {
    std::int64_t elements = 0;
    for (const ParameterTensor& tensor : workload_.parameters) {
      elements += PaddedElements(tensor.elements, sharding_.shards) / sharding_.shards;
    }
    return {.job = job_,
            .group = group_,
            .communicator = communicator_,
            .elements = elements,
            .tensors = static_cast<std::int64_t>(workload_.parameters.size()),
            .at_a_time = std::min(elements, plan_.sub_group_size)};
  }

  bool IsLeaf(std::int32_t unit) const { return fetcher_.modules().IsLeaf(unit); }
  const std::vector<Operator>& OperatorsOf(std::int32_t unit) const {
    return workload_.units[static_cast<std::size_t>(unit)].operators;
  }
  bool IsModule(std::int32_t unit, const Operator& op) const {
    return !IsLeaf(unit) && UsesParameters(op);
  }
  std::int64_t ElementsOf(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)].elements;
  }
  Bytes BytesOf(std::int32_t p) const { return SizeOf(sharding_.gather, ElementsOf(p)); }
  bool IsCopied(std::int32_t p) const {
    return plan_.contiguous_gradients && ElementsOf(p) <= plan_.reduce_bucket_size;
  }
  void Drop(RankProgram& rank, std::int32_t p, TaskId after) {
    rank.graph().AddMemoryEvent(after, /*at_end=*/true, "unsharded_gradients",
                                Bytes{} - BytesOf(p));
  }

  // The full bucket is reduced first, on a stream that does not wait for compute at that point; the
  // copy into the single buffer queues behind it.
  void Add(const Moment& moment, std::int32_t p) {
    RankProgram& rank = moment.rank;
    if (held_ > 0 && held_ + ElementsOf(p) > plan_.reduce_bucket_size) Reduce(moment);
    if (plan_.overlaps()) rank.Wait(reduce_, rank.Record(rank.compute()));
    if (IsCopied(p)) {
      const std::string& name = workload_.parameters[static_cast<std::size_t>(p)].name;
      Drop(rank, p, rank.Launch(reduce_, CopyWork(BytesOf(p), BytesOf(p)), "copy " + name));
    }
    bucket_.push_back(p);
    held_ += ElementsOf(p);
  }

  void Reduce(const Moment& moment) {
    if (bucket_.empty()) return;
    RankProgram& rank = moment.rank;
    if (reductions_.size() > kMostUnfinished && !job_.plan.ideal) {
      rank.BlockHost(reductions_.front());
      reductions_.pop_front();
    }
    const std::string name = fmt::format("bucket {}", ++buckets_);
    LaunchReduction(rank, name);
    const std::int64_t own = (held_ + sharding_.shards - 1) / sharding_.shards;
    if (moment.is_first_microstep) {
      const Bytes bytes = SizeOf(sharding_.gradient, own);
      rank.Launch(reduce_, CopyWork(bytes, bytes), "keep own slice " + name);
    } else {
      rank.Launch(reduce_, AccumulateWork(sharding_.gradient, own), "accumulate " + name);
    }
    for (const std::int32_t p : bucket_) {
      if (!IsCopied(p)) Drop(rank, p, rank.Record(reduce_).last);
    }
    reductions_.push_back(rank.Record(reduce_));
    bucket_.clear();
    held_ = 0;
  }

  // Without reduce_scatter the bucket is summed as it lies; else each tensor is cut into padded
  // parts, and those of a rank are put together.
  void LaunchReduction(RankProgram& rank, const std::string& name) {
    const bool scatters = plan_.reduce_scatter || !plan_.contiguous_gradients;
    std::int64_t elements = held_;
    if (scatters) {
      elements = 0;
      for (const std::int32_t p : bucket_) {
        elements += PaddedElements(ElementsOf(p), sharding_.shards);
      }
    }
    rank.Launch(reduce_, DivideWork(sharding_.gather, sharding_.reduce, held_, scatters),
                "divide " + name);
    rank.LaunchCollectiveOfLast(reduce_,
                                {scatters ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce,
                                 sharding_.reduce, SizeOf(sharding_.reduce, elements), group_},
                                (scatters ? "reduce_scatter " : "all_reduce ") + name,
                                Site::kGradientReduce, reduce_communicator_);
  }

  const JobSpec& job_;
  const ZeroPlan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  GroupId group_;
  StreamId communicator_;
  Zero3Fetcher fetcher_;
  StreamId reduce_;
  StreamId reduce_communicator_;
  std::vector<std::int32_t> bucket_;
  std::int64_t held_ = 0;  // elements in it
  int buckets_ = 0;
  std::int32_t leaf_ = kNoLeaf;         // the leaf module whose backward runs
  std::vector<std::int32_t> of_leaf_;   // gradients that wait for its end
  std::deque<StreamEvent> reductions_;  // that the host may have to wait for
};

}  // namespace

std::unique_ptr<Strategy> MakeZero3(const StrategyContext& context) {
  return std::make_unique<Zero3>(context);
}

}  // namespace stepsim
