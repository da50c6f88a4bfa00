#include "models/parallel/zero3_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/parallel/shard_groups.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

constexpr const char* kAhead = "(prefetch) ";

}  // namespace

Zero3Fetcher::Zero3Fetcher(const StrategyContext& context, StreamId communicator)
    : plan_(context.job.plan.zero),
      is_ideal_(context.job.plan.ideal),
      sharding_(ShardingOf(context.job)),
      workload_(context.workload),
      modules_(workload_, plan_),
      uses_(PlanUses(plan_, workload_, modules_)),
      gather_(plan_.overlaps() ? context.rank.AddStream("allgather") : context.rank.compute()),
      all_{context.dense.all, context.rank.AddStream("nccl dp"), communicator},
      node_(all_),
      gathered_(workload_.parameters.size()),
      second_copies_(workload_.parameters.size()) {
  if (HasSecondCopies()) {
    node_.group = context.groups.Part(context.global_rank, plan_.zero_hpz_partition_size, 1, "hpz",
                                      "a second copy of the parameters inside a node");
    if (node_.group != all_.group) {
      node_.stream = context.rank.AddStream("nccl hpz");
      node_.communicator = kNoId<StreamId>;
    }
  }
  Bytes persistent;
  for (std::size_t p = 0; p < workload_.parameters.size(); ++p) {
    if (IsPersistent(workload_.parameters[p], plan_)) {
      persistent += BytesOf(static_cast<std::int32_t>(p));
    }
  }
  context.rank.graph().AddResidentMemory(context.rank.rank(), "persistent_parameters", persistent);
}

void Zero3Fetcher::BeginMicrostep(const Moment& moment) {
  RankProgram& rank = moment.rank;
  next_ = 0;
  const StreamEvent now = rank.Record(rank.compute());
  // What the optimizer has made; the gather's stream waits for all of compute once more.
  if (!is_ideal_ || moment.is_first_microstep) {
    rank.Wait(all_.stream, now);
    if (node_.stream != all_.stream) rank.Wait(node_.stream, now);
  }
  if (is_ideal_) {
    GatherBeforehand(rank);
  } else if (gather_ != rank.compute()) {
    rank.Wait(gather_, now);
  }
}

// plan.ideal: the same calls in the same order, none of which waits for compute. Those that need a
// second copy which this micro-step makes keep their place.
void Zero3Fetcher::GatherBeforehand(RankProgram& rank) {
  rank.LaunchBeforehand(true);
  later_.assign(uses_.size(), {});
  std::vector<bool> is_released(workload_.parameters.size());
  const auto gather = [&](const std::vector<std::int32_t>& parameters, const std::string& why,
                          std::vector<std::int32_t>& later) {
    std::vector<std::int32_t> now;
    for (const std::int32_t p : parameters) {
      const bool waits =
          HasSecondCopies() && !HasSecondCopy(p) && is_released[static_cast<std::size_t>(p)];
      (waits ? later : now).push_back(p);
    }
    Gather(rank, now, why);
  };
  for (std::size_t use = 0; use < uses_.size(); ++use) {
    gather(uses_[use].fetched, "", later_[use].fetched);
    gather(uses_[use].prefetched, kAhead, later_[use].prefetched);
    for (const std::int32_t p : uses_[use].released) {
      is_released[static_cast<std::size_t>(p)] = true;
    }
  }
  rank.LaunchBeforehand(false);
}

void Zero3Fetcher::Fetch(RankProgram& rank) {
  const std::size_t use = next_++;
  open_.push_back(use);
  const ZeroUse& gathers = is_ideal_ ? later_[use] : uses_[use];
  rank.LaunchBeforehand(is_ideal_);
  Gather(rank, gathers.fetched, "");
  rank.LaunchBeforehand(false);
  WaitFor(rank, uses_[use].awaited);
  rank.LaunchBeforehand(is_ideal_);
  Gather(rank, gathers.prefetched, kAhead);
  rank.LaunchBeforehand(false);
}

// What has a second copy inside the node is gathered from there.
void Zero3Fetcher::Gather(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                          const std::string& why) {
  std::vector<std::int32_t> near, far;
  for (const std::int32_t p : parameters) (HasSecondCopy(p) ? near : far).push_back(p);
  GatherFrom(rank, near, node_, why);
  GatherFrom(rank, far, all_, why);
}

void Zero3Fetcher::GatherFrom(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                              const Route& route, const std::string& why) {
  if (plan_.stage3_allgather_sequential) {
    for (const std::int32_t p : parameters) GatherAsOne(rank, {p}, route, why);
  } else if (!parameters.empty()) {
    GatherAsOne(rank, parameters, route, why);
  }
}

// It sees everything that the issuing stream holds.
void Zero3Fetcher::GatherAsOne(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                               const Route& route, const std::string& why) {
  Bytes sent, kept;
  for (const std::int32_t p : parameters) {
    sent += SizeOf(sharding_.gather, PaddedElements(TensorAt(p).elements, sharding_.shards));
    kept += BytesOf(p);
    rank.Wait(route.stream, second_copies_[static_cast<std::size_t>(p)]);
  }
  if (!is_ideal_) rank.Wait(route.stream, rank.Record(gather_));
  std::string name = "all_gather " + why + TensorAt(parameters.front()).name;
  if (parameters.size() > 1) name += fmt::format(" +{}", parameters.size() - 1);
  const TaskId gathered = rank.LaunchCollective(
      route.stream, {CollectiveOp::kAllGather, sharding_.gather, sent, route.group},
      std::move(name), Site::kParameterGather, route.communicator);
  rank.graph().AddMemoryEvent(gathered, /*at_end=*/false, "unsharded_parameters", kept);
  for (const std::int32_t p : parameters) {
    gathered_[static_cast<std::size_t>(p)].push_back(rank.Record(route.stream));
  }
}

// The module's parameters are put together from their parts, one by one; then compute may go on.
void Zero3Fetcher::WaitFor(RankProgram& rank, const std::vector<std::int32_t>& parameters) {
  for (const std::int32_t p : parameters) {
    if (fetches_.size() > kMostUnfinished && !is_ideal_) {
      rank.BlockHost(fetches_.front());
      fetches_.pop_front();
    }
    std::deque<StreamEvent>& gathered = gathered_[static_cast<std::size_t>(p)];
    rank.Wait(gather_, gathered.front());
    gathered.pop_front();
    rank.Launch(gather_, CopyWork(BytesOf(p), BytesOf(p)), "assemble " + TensorAt(p).name);
    fetches_.push_back(rank.Record(gather_));
  }
  if (!parameters.empty()) rank.Wait(rank.compute(), rank.Record(gather_));
}

void Zero3Fetcher::Release(RankProgram& rank) {
  const std::size_t use = open_.back();
  open_.pop_back();
  for (const std::int32_t p : uses_[use].released) {
    if (HasSecondCopies() && !HasSecondCopy(p)) KeepSecondCopy(rank, p);
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "unsharded_parameters", Bytes{} - BytesOf(p));
  }
}

Bytes Zero3Fetcher::SecondCopyOf(std::int32_t p) const {
  return SizeOf(sharding_.gather, PaddedElements(TensorAt(p).elements, sharding_.shards) /
                                      plan_.zero_hpz_partition_size);
}

// Cut out of the parameter as it is released for the first time since the optimizer's step.
void Zero3Fetcher::KeepSecondCopy(RankProgram& rank, std::int32_t parameter) {
  const Bytes bytes = SecondCopyOf(parameter);
  const TaskId copied = rank.Launch(rank.compute(), CopyWork(bytes, bytes),
                                    "second copy of " + TensorAt(parameter).name);
  second_copies_[static_cast<std::size_t>(parameter)] = rank.Record(rank.compute());
  rank.graph().AddMemoryEvent(copied, /*at_end=*/false, "secondary_parameters", bytes);
}

void Zero3Fetcher::AfterOptimizer(RankProgram& rank) {
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < workload_.parameters.size(); ++i) {
    const auto p = static_cast<std::int32_t>(i);
    if (IsPersistent(TensorAt(p), plan_)) {
      elements += PaddedElements(TensorAt(p).elements, sharding_.shards);
    }
    if (!HasSecondCopy(p)) continue;
    second_copies_[i] = {};
    rank.graph().AddMemoryEvent(rank.Record(rank.compute()).last, /*at_end=*/true,
                                "secondary_parameters", Bytes{} - SecondCopyOf(p));
  }
  if (elements == 0) return;
  rank.LaunchCollectiveOfLast(
      rank.compute(),
      {CollectiveOp::kAllGather, sharding_.gather, SizeOf(sharding_.gather, elements), all_.group},
      "all_gather persistent parameters", Site::kParameterGather, all_.communicator);
}

}  // namespace stepsim
