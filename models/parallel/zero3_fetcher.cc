#include "models/parallel/zero3_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/parallel/shard_groups.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostEvents = 2;

}  // namespace

Zero3Fetcher::Zero3Fetcher(const StrategyContext& context, StreamId communicator)
    : plan_(context.job.plan.zero),
      sharding_(ShardingOf(context.job)),
      workload_(context.workload),
      modules_(workload_, plan_),
      states_(workload_.parameters.size()),
      gather_(plan_.overlaps() ? context.rank.AddStream("allgather") : context.rank.compute()),
      all_{context.data_parallel, context.rank.AddStream("nccl dp"), communicator},
      node_(all_) {
  for (std::size_t use = 0; use < modules_.use_count(); ++use) {
    for (const std::int32_t p : modules_.ModuleOf(use).parameters) order_.push_back({p, use});
  }
  if (plan_.zero_hpz_partition_size > 1) {
    node_.group = context.groups.Of(context.global_rank, plan_.zero_hpz_partition_size, 1, "hpz",
                                    "a second copy of the parameters inside a node");
    if (node_.group != all_.group) {
      node_.stream = context.rank.AddStream("nccl hpz");
      node_.communicator = kNoId<StreamId>;
    }
  }
  if (plan_.is_first_iteration()) return;
  Bytes persistent;
  for (std::size_t p = 0; p < states_.size(); ++p) {
    if (workload_.parameters[p].elements >= plan_.stage3_param_persistence_threshold) continue;
    states_[p].is_persistent = true;
    persistent += BytesOf(static_cast<std::int32_t>(p));
  }
  context.rank.graph().AddResidentMemory(context.rank.rank(), "persistent_parameters", persistent);
}

void Zero3Fetcher::BeginMicrostep(RankProgram& rank) {
  use_ = next_ = 0;
  for (State& state : states_) state.satisfied = 0;
  if (plan_.overlaps()) rank.Wait(gather_, rank.Record(rank.compute()));
}

void Zero3Fetcher::Fetch(RankProgram& rank) {
  const FetchedModule& module = modules_.ModuleOf(use_);
  std::vector<std::int32_t> missing;
  for (const std::int32_t p : module.parameters) {
    if (!StateOf(p).is_persistent && !StateOf(p).is_available) missing.push_back(p);
  }
  Gather(rank, missing, "");
  WaitFor(rank, module);
  while (next_ < order_.size() && order_[next_].use <= use_) ++next_;
  if (!plan_.is_first_iteration()) Prefetch(rank);
}

// What has a second copy inside the node is gathered from there.
void Zero3Fetcher::Gather(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                          const std::string& why) {
  std::vector<std::int32_t> parts[2];
  for (const std::int32_t p : parameters) parts[StateOf(p).has_second_copy ? 0 : 1].push_back(p);
  for (const std::vector<std::int32_t>& part : parts) {
    const Route& route = &part == &parts[0] ? node_ : all_;
    if (plan_.stage3_allgather_sequential) {
      for (const std::int32_t p : part) GatherAsOne(rank, {p}, route, why);
    } else if (!part.empty()) {
      GatherAsOne(rank, part, route, why);
    }
  }
}

// It sees everything that the issuing stream holds.
void Zero3Fetcher::GatherAsOne(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                               const Route& route, const std::string& why) {
  Bytes sent, kept;
  for (const std::int32_t p : parameters) {
    sent += SizeOf(sharding_.gather, PaddedElements(TensorAt(p).elements, sharding_.shards));
    kept += BytesOf(p);
    live_ += TensorAt(p).elements;
  }
  rank.Wait(route.stream, rank.Record(gather_));
  std::string name = "all_gather " + why + TensorAt(parameters.front()).name;
  if (parameters.size() > 1) name += fmt::format(" +{}", parameters.size() - 1);
  const TaskId gathered = rank.LaunchCollective(
      route.stream, {CollectiveOp::kAllGather, sharding_.gather, sent, route.group},
      std::move(name), Site::kParameterGather, route.communicator);
  rank.graph().AddMemoryEvent(gathered, /*at_end=*/false, "unsharded_parameters", kept);
  for (const std::int32_t p : parameters) {
    StateOf(p).is_available = StateOf(p).is_awaited = true;
    StateOf(p).gathered = rank.Record(route.stream);
  }
}

// The module's parameters are put together from their parts, one by one; then compute may go on.
void Zero3Fetcher::WaitFor(RankProgram& rank, const FetchedModule& module) {
  bool has_waited = false;
  for (const std::int32_t p : module.parameters) {
    State& state = StateOf(p);
    if (!state.is_awaited) continue;
    state.is_awaited = false;
    if (fetches_.size() > kMostEvents) {
      rank.BlockHost(fetches_.front());
      fetches_.pop_front();
    }
    rank.Wait(gather_, state.gathered);
    rank.Launch(gather_, CopyWork(BytesOf(p), BytesOf(p)), "assemble " + TensorAt(p).name);
    fetches_.push_back(rank.Record(gather_));
    has_waited = true;
  }
  if (has_waited) rank.Wait(rank.compute(), rank.Record(gather_));
}

// Behind the module's own wait: the next uses of the recorded order, the crossing parameter
// included.
void Zero3Fetcher::Prefetch(RankProgram& rank) {
  const std::int64_t most =
      std::min(plan_.stage3_max_live_parameters - live_, plan_.stage3_prefetch_bucket_size);
  std::vector<std::int32_t> wanted;
  std::int64_t elements = 0;
  for (; next_ < order_.size() && elements < most; ++next_) {
    const auto [p, use] = order_[next_];
    State& state = StateOf(p);
    state.satisfied = use;
    const bool is_wanted = std::find(wanted.begin(), wanted.end(), p) != wanted.end();
    if (state.is_persistent || state.is_available || is_wanted) continue;
    wanted.push_back(p);
    elements += TensorAt(p).elements;
  }
  std::sort(wanted.begin(), wanted.end());
  Gather(rank, wanted, "(prefetch) ");
}

void Zero3Fetcher::Release(RankProgram& rank) {
  const std::int64_t reuse = plan_.is_first_iteration() ? 0 : plan_.stage3_max_reuse_distance;
  for (const std::int32_t p : modules_.ModuleOf(use_).parameters) {
    State& state = StateOf(p);
    const bool is_kept = state.is_persistent || state.satisfied > use_;
    if (!state.is_available || is_kept || modules_.IsUsedWithin(p, use_, reuse)) continue;
    state.is_available = false;
    live_ -= TensorAt(p).elements;
    if (plan_.zero_hpz_partition_size > 1) KeepSecondCopy(rank, p);
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "unsharded_parameters", Bytes{} - BytesOf(p));
  }
  ++use_;
}

Bytes Zero3Fetcher::SecondCopyOf(std::int32_t p) const {
  return SizeOf(sharding_.gather, PaddedElements(TensorAt(p).elements, sharding_.shards) /
                                      plan_.zero_hpz_partition_size);
}

// Cut out of the parameter as it is released for the first time since the optimizer's step.
void Zero3Fetcher::KeepSecondCopy(RankProgram& rank, std::int32_t parameter) {
  State& state = StateOf(parameter);
  if (std::exchange(state.has_second_copy, true)) return;
  const Bytes bytes = SecondCopyOf(parameter);
  const TaskId copied = rank.Launch(rank.compute(), CopyWork(bytes, bytes),
                                    "second copy of " + TensorAt(parameter).name);
  rank.graph().AddMemoryEvent(copied, /*at_end=*/false, "secondary_parameters", bytes);
}

void Zero3Fetcher::AfterOptimizer(RankProgram& rank) {
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (states_[i].is_persistent) {
      elements += PaddedElements(TensorAt(p).elements, sharding_.shards);
    }
    if (!std::exchange(states_[i].has_second_copy, false)) continue;
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "secondary_parameters", Bytes{} - SecondCopyOf(p));
  }
  if (elements == 0) return;
  rank.LaunchCollective(
      rank.compute(),
      {CollectiveOp::kAllGather, sharding_.gather, SizeOf(sharding_.gather, elements), all_.group},
      "all_gather persistent parameters", Site::kParameterGather, all_.communicator);
}

}  // namespace stepsim
