// DeepSpeed ZeRO stage 3, hook by hook: reference/schedules "DeepSpeed ZeRO" as retold in
// models/README.md, "ZeRO". The unit is every module that owns parameters: one operator here.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

// The recorded order in which modules use their parameters through forward and backward.
class ModuleTrace {
 public:
  explicit ModuleTrace(const Workload& workload) {
    for (const ModelUnit& unit : workload.units) {
      for (const Operator& op : unit.operators) Add(op, workload);
    }
    for (auto u = static_cast<std::int32_t>(workload.units.size()); u-- > 0;) {
      const auto& operators = workload.units[static_cast<std::size_t>(u)].operators;
      for (auto i = static_cast<std::int32_t>(operators.size()); i-- > 0;) {
        for (const Rerun& rerun : workload.RerunsBefore({u, i})) {
          for (const Rerun::Step& step : rerun.steps) {
            Add(workload.OperatorAt(step.place), workload);
          }
        }
        Add(operators[static_cast<std::size_t>(i)], workload);
      }
    }
  }

  std::size_t size() const { return uses_.size(); }
  const std::vector<std::int32_t>& parameters(std::size_t use) const {
    return uses_[use]->parameters_ready;
  }

  // Elements of the modules between a use and the next one of the same module; huge without one.
  std::int64_t DistanceToNextUse(std::size_t use) const {
    for (std::size_t next = use + 1; next < uses_.size(); ++next) {
      if (uses_[next] == uses_[use]) return before_[next] - before_[use + 1];
    }
    return std::numeric_limits<std::int64_t>::max();
  }

 private:
  void Add(const Operator& op, const Workload& workload) {
    if (op.parameters_ready.empty()) return;
    if (before_.empty()) before_.push_back(0);
    std::int64_t elements = 0;
    for (const std::int32_t p : op.parameters_ready) {
      elements += workload.parameters[static_cast<std::size_t>(p)].elements;
    }
    uses_.push_back(&op);
    before_.push_back(before_.back() + elements);
  }

  std::vector<const Operator*> uses_;
  std::vector<std::int64_t> before_;  // elements used before each use
};

class Zero3 : public Strategy {
 public:
  explicit Zero3(const StrategyContext& context)
      : plan_(context.job.plan.zero),
        sharding_(ShardingOf(context.job)),
        workload_(context.workload),
        group_(context.data_parallel),
        trace_(workload_),
        states_(workload_.parameters.size()),
        nccl_(context.rank.AddStream("nccl dp")),
        gather_(plan_.overlaps() ? context.rank.AddStream("allgather") : context.rank.compute()),
        reduce_(plan_.overlaps() ? context.rank.AddStream("reduce and partition")
                                 : context.rank.compute()),
        communicator_(context.rank.AddCommunicator("communicator dp")) {
    const std::int64_t bucket = std::min(plan_.reduce_bucket_size, workload_.parameter_count());
    context.rank.graph().AddResidentMemory(context.rank.rank(), "buckets",
                                           SizeOf(sharding_.gather, bucket));
    for (std::size_t p = 0; p < states_.size(); ++p) {
      states_[p].is_persistent =
          workload_.parameters[p].elements < plan_.stage3_param_persistence_threshold;
    }
  }

  void BeforeForward(const Moment& moment, std::int32_t unit) override {
    if (unit != 0) return;
    use_ = next_ = 0;
    for (ParameterState& state : states_) state.satisfied = 0;
    if (plan_.overlaps()) moment.rank.Wait(gather_, moment.rank.Record(moment.rank.compute()));
  }

  void BeforeForwardOf(const Moment& moment, std::int32_t, const Operator& op) override {
    Fetch(moment.rank, op);
  }
  void AfterForwardOf(const Moment& moment, std::int32_t, const Operator& op) override {
    Release(moment.rank, op);
  }
  void BeforeBackwardOf(const Moment& moment, std::int32_t, const Operator& op) override {
    Fetch(moment.rank, op);
  }
  void AfterBackwardOf(const Moment& moment, std::int32_t, const Operator& op) override {
    Release(moment.rank, op);
  }

  // A checkpoint's rerun calls the modules' forward hooks again.
  void BeforeRerunOf(const Moment& moment, const Operator& op) override { Fetch(moment.rank, op); }
  void AfterRerunOf(const Moment& moment, const Operator& op) override { Release(moment.rank, op); }

  // The full bucket is reduced first, on a stream that does not wait for compute at that point; the
  // copy into the single buffer queues behind it.
  void GradientReady(const Moment& moment, std::int32_t parameter) override {
    RankProgram& rank = moment.rank;
    const ParameterTensor& tensor = TensorAt(parameter);
    if (held_ > 0 && held_ + tensor.elements > plan_.reduce_bucket_size) Reduce(moment);
    const Bytes bytes = SizeOf(sharding_.gather, tensor.elements);
    const TaskId produced = rank.Record(rank.compute()).last;
    if (plan_.overlaps()) rank.Wait(reduce_, rank.Record(rank.compute()));
    const TaskId copied = rank.Launch(reduce_, CopyWork(bytes, bytes), "copy " + tensor.name);
    rank.graph().AddMemoryEvent(produced, /*at_end=*/true, "unsharded_gradients", bytes);
    rank.graph().AddMemoryEvent(copied, /*at_end=*/true, "unsharded_gradients", Bytes{} - bytes);
    held_ += tensor.elements;
  }

  void AfterLastBackward(const Moment& moment) override {
    Reduce(moment);
    moment.rank.BlockHost(moment.rank.Record(reduce_));
  }

  // Parameters that are never partitioned are made equal again.
  void AfterOptimizer(const Moment& moment) override {
    std::int64_t elements = 0;
    for (std::size_t p = 0; p < states_.size(); ++p) {
      if (states_[p].is_persistent) elements += workload_.parameters[p].elements;
    }
    if (elements == 0) return;
    moment.rank.LaunchCollective(
        moment.rank.compute(),
        {CollectiveOp::kAllGather, sharding_.gather, SizeOf(sharding_.gather, elements), group_},
        "all_gather persistent parameters", Site::kParameterGather, communicator_);
  }

  // Partitions are added up behind each reduction.
  bool AccumulatesGradients(const Moment&) const override { return false; }

 private:
  static constexpr std::size_t kMostEvents = 2;

  struct ParameterState {
    bool is_persistent = false;
    bool is_available = false;  // gathered, or on its way
    bool is_awaited = false;    // on its way, and nobody has waited for it
    StreamEvent gathered;
    std::size_t satisfied = 0;  // the latest use that the prefetcher counts on it for
  };

  const ParameterTensor& TensorAt(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)];
  }
  ParameterState& StateOf(std::int32_t p) { return states_[static_cast<std::size_t>(p)]; }

  void Fetch(RankProgram& rank, const Operator& op) {
    if (op.parameters_ready.empty()) return;
    std::vector<std::int32_t> missing;
    for (const std::int32_t p : op.parameters_ready) {
      if (!StateOf(p).is_persistent && !StateOf(p).is_available) missing.push_back(p);
    }
    Gather(rank, missing, "");
    WaitFor(rank, op);
    next_ = std::max(next_, use_ + 1);
    Prefetch(rank);
  }

  // One coalesced call, or one for each parameter. It sees everything that the issuing stream
  // holds.
  void Gather(RankProgram& rank, const std::vector<std::int32_t>& parameters,
              const std::string& why) {
    if (parameters.empty()) return;
    if (plan_.stage3_allgather_sequential) {
      for (const std::int32_t p : parameters) GatherAsOne(rank, {p}, why);
    } else {
      GatherAsOne(rank, parameters, why);
    }
  }

  void GatherAsOne(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                   const std::string& why) {
    Bytes bytes;
    std::int64_t elements = 0;
    for (const std::int32_t p : parameters) {
      elements += TensorAt(p).elements;
      bytes += SizeOf(sharding_.gather, (TensorAt(p).elements + sharding_.shards - 1) /
                                            sharding_.shards * sharding_.shards);
    }
    rank.Wait(nccl_, rank.Record(gather_));
    std::string name = "all_gather " + why + TensorAt(parameters.front()).name;
    if (parameters.size() > 1) name += fmt::format(" +{}", parameters.size() - 1);
    const TaskId gathered =
        rank.LaunchCollective(nccl_, {CollectiveOp::kAllGather, sharding_.gather, bytes, group_},
                              std::move(name), Site::kParameterGather, communicator_);
    rank.graph().AddMemoryEvent(gathered, /*at_end=*/false, "unsharded_parameters",
                                SizeOf(sharding_.gather, elements));
    live_ += elements;
    for (const std::int32_t p : parameters) {
      StateOf(p).is_available = StateOf(p).is_awaited = true;
      StateOf(p).gathered = rank.Record(nccl_);
    }
  }

  // The module's parameters are put together from their parts; then compute may go on.
  void WaitFor(RankProgram& rank, const Operator& op) {
    Bytes bytes;
    std::int32_t kernels = 0;
    for (const std::int32_t p : op.parameters_ready) {
      ParameterState& state = StateOf(p);
      if (!state.is_awaited) continue;
      state.is_awaited = false;
      rank.Wait(gather_, state.gathered);
      bytes += SizeOf(sharding_.gather, TensorAt(p).elements);
      ++kernels;
    }
    if (kernels == 0) return;
    if (fetches_.size() > kMostEvents) {
      rank.BlockHost(fetches_.front());
      fetches_.pop_front();
    }
    ComputeWork assemble = CopyWork(bytes, bytes);
    assemble.kernels = kernels;
    rank.Launch(gather_, assemble, "assemble " + TensorAt(op.parameters_ready.front()).name);
    fetches_.push_back(rank.Record(gather_));
    rank.Wait(rank.compute(), rank.Record(gather_));
  }

  // Behind the module's own wait: the next uses of the trace, the crossing parameter included.
  void Prefetch(RankProgram& rank) {
    const std::int64_t most =
        std::min(plan_.stage3_max_live_parameters - live_, plan_.stage3_prefetch_bucket_size);
    std::vector<std::int32_t> wanted;
    std::int64_t elements = 0;
    for (; next_ < trace_.size() && elements < most; ++next_) {
      for (const std::int32_t p : trace_.parameters(next_)) {
        ParameterState& state = StateOf(p);
        state.satisfied = next_;
        const bool is_wanted = std::find(wanted.begin(), wanted.end(), p) != wanted.end();
        if (state.is_persistent || state.is_available || is_wanted) continue;
        wanted.push_back(p);
        elements += TensorAt(p).elements;
      }
    }
    Gather(rank, wanted, "(prefetch) ");
  }

  void Release(RankProgram& rank, const Operator& op) {
    if (op.parameters_ready.empty()) return;
    const bool is_near = trace_.DistanceToNextUse(use_) < plan_.stage3_max_reuse_distance;
    for (const std::int32_t p : op.parameters_ready) {
      ParameterState& state = StateOf(p);
      if (state.is_persistent || !state.is_available || is_near || state.satisfied > use_) continue;
      state.is_available = false;
      live_ -= TensorAt(p).elements;
      rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                  "unsharded_parameters",
                                  Bytes{} - SizeOf(sharding_.gather, TensorAt(p).elements));
    }
    ++use_;
  }

  void Reduce(const Moment& moment) {
    if (held_ == 0) return;
    RankProgram& rank = moment.rank;
    if (reductions_.size() > kMostEvents) {
      rank.BlockHost(reductions_.front());
      reductions_.pop_front();
    }
    const std::string name = fmt::format("bucket {}", ++buckets_);
    rank.LaunchCollective(
        reduce_,
        {CollectiveOp::kReduceScatter, sharding_.reduce, SizeOf(sharding_.reduce, held_), group_},
        "reduce_scatter " + name, Site::kGradientReduce, communicator_);
    if (!moment.is_first_microstep) {
      rank.Launch(reduce_, AccumulateWork(sharding_.gradient, held_ / sharding_.shards),
                  "accumulate " + name);
    }
    reductions_.push_back(rank.Record(reduce_));
    held_ = 0;
  }

  const ZeroPlan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  GroupId group_;
  ModuleTrace trace_;
  std::vector<ParameterState> states_;
  StreamId nccl_, gather_, reduce_;
  StreamId communicator_;
  std::size_t use_ = 0;    // of the trace, now
  std::size_t next_ = 0;   // of the trace, for the prefetcher
  std::int64_t live_ = 0;  // elements gathered or on their way
  std::int64_t held_ = 0;  // elements in the bucket
  int buckets_ = 0;
  std::deque<StreamEvent> fetches_, reductions_;  // that the host may have to wait for
};

}  // namespace

std::unique_ptr<Strategy> MakeZero3(const StrategyContext& context) {
  return std::make_unique<Zero3>(context);
}

}  // namespace stepsim
