#include "models/parallel/fsdp2_gathers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/spec/wrap_modules.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

constexpr std::size_t kRoot = 0;

}  // namespace

Fsdp2Gathers::Fsdp2Gathers(const StrategyContext& context, const ShardGroups& groups)
    : rank_(context.rank),
      plan_(context.job.plan.fsdp2),
      is_ideal_(context.job.plan.ideal),
      has_own_streams_(!plan_.unshard_async_op || is_ideal_),
      shardings_(ShardingsOf(context.job)),
      resharding_(ReshardingOf(context.job)),
      groups_(groups),
      reshards_(groups.groups.size(), resharding_.groups ? 1 : 0),
      states_(groups.groups.size()) {
  reshards_[kRoot] = resharding_.root ? 1 : 0;
  MarkKept(plan_.keep_after_forward, context.workload);
  whole_ = MakeRoute(context.dense.shard, "shard");
  if (context.job.plan.has_expert_mesh()) experts_ = MakeRoute(context.experts.shard, "edp shard");
  if (resharding_.size == 0) return;
  const GroupId few = context.groups.Part(context.global_rank, resharding_.size, 1, "reshard",
                                          "a copy between forward and backward");
  small_ = MakeRoute(few, "reshard");
}

// All groups share the streams of gathers; with unshard_async_op each process group has its own.
// The hardware queues of a ceiling are those of what it is a ceiling for.
Fsdp2Gathers::Route Fsdp2Gathers::MakeRoute(GroupId group, const std::string& name) const {
  Route route{group, rank_.compute(), {}, {}};
  if (has_own_streams_) {
    route.copy_in = rank_.AddStream("all_gather copy-in", !plan_.unshard_async_op);
  }
  route.gather = rank_.AddStream(has_own_streams_ ? "all_gather" : "nccl " + name);
  route.communicator = rank_.AddCommunicator("communicator " + name);
  return route;
}

void Fsdp2Gathers::MarkKept(const std::vector<std::string>& kept, const Workload& workload) {
  for (std::size_t u = 0; u < workload.units.size(); ++u) {
    const bool is_kept = std::any_of(kept.begin(), kept.end(), [&](const std::string& pattern) {
      return FitsPattern(workload.units[u].name, pattern);
    });
    if (is_kept) reshards_[groups_.of_unit[u]] = 0;
  }
}

Bytes Fsdp2Gathers::Unsharded(std::size_t g) const {
  const Sharding& sharding = ShardingOf(g);
  return SizeOf(sharding.gather, PaddedElements(GroupAt(g).elements, sharding.shards));
}

bool Fsdp2Gathers::IsSkipped(std::size_t g) const {
  return !plan_.unshard_in_backward && g != kRoot && GroupAt(g).first_unit == 0;
}

void Fsdp2Gathers::WaitWithGathers(StreamEvent event) {
  if (whole_.copy_in != rank_.compute()) rank_.Wait(whole_.copy_in, event);
  rank_.Wait(whole_.gather, event);
}

void Fsdp2Gathers::BeginForward(const Moment& moment) {
  if (!is_ideal_ || moment.is_first_microstep) WaitWithGathers(rank_.Record(rank_.compute()));
  if (is_ideal_) GatherBeforehand();
}

// Everything that this micro-step will need, in the order of the need.
void Fsdp2Gathers::GatherBeforehand() {
  rank_.LaunchBeforehand(true);
  for (std::size_t g = 0; g < states_.size(); ++g) Unshard(g, Direction::kForward);
  for (const std::size_t g : groups_.backward) {
    if (resharding_.size > 0 || ShardingOf(g).shards == 1) continue;
    if (GathersInBackward(g) && GroupAt(g).elements > 0) {
      states_[g].gathered_for_backward = Gather(g, /*is_resharded=*/false);
    }
  }
  rank_.LaunchBeforehand(false);
}

// The smaller copies are made behind each forward.
void Fsdp2Gathers::GatherReshardedBeforehand() {
  rank_.LaunchBeforehand(true);
  for (const std::size_t g : groups_.backward) {
    if (GathersInBackward(g)) Unshard(g, Direction::kBackward);
  }
  rank_.LaunchBeforehand(false);
}

void Fsdp2Gathers::Unshard(std::size_t g, Direction direction) {
  State& state = states_[g];
  if (state.form == Form::kUnsharded || state.gathered || GroupAt(g).elements == 0) return;
  if (direction == Direction::kBackward) {
    if (IsSkipped(g)) return;
    if (state.gathered_for_backward) {
      state.gathered = std::exchange(state.gathered_for_backward, std::nullopt);
      return;
    }
  }
  state.is_from_resharded = state.form == Form::kResharded;
  state.gathered = ShardingOf(g).shards == 1 ? StreamEvent{} : Gather(g, state.is_from_resharded);
}

// The shards are cast and packed into the gather's output, then gathered in place.
StreamEvent Fsdp2Gathers::Gather(std::size_t g, bool is_resharded) {
  const std::string& name = GroupAt(g).name;
  const Route& route = is_resharded ? small_ : GroupAt(g).is_expert ? experts_ : whole_;
  const Sharding& sharding = ShardingOf(g);
  const std::int64_t elements = GroupAt(g).elements;
  const Bytes stored = is_resharded ? Resharded(g) : sharding.ShardOf(elements, sharding.storage);
  const Bytes packed = is_resharded ? Resharded(g) : sharding.ShardOf(elements, sharding.gather);
  if (is_resharded) WaitWithGathers(states_[g].resharded);
  const TaskId copied = rank_.Launch(route.copy_in, CopyWork(stored, packed), "copy_in " + name);
  rank_.graph().AddMemoryEvent(copied, /*at_end=*/false, "gather_buffers", Unsharded(g));
  rank_.Wait(route.gather, rank_.Record(route.copy_in));
  rank_.LaunchCollective(route.gather,
                         {CollectiveOp::kAllGather, sharding.gather, Unsharded(g), route.group},
                         "all_gather " + name, Site::kParameterGather, route.communicator);
  return rank_.Record(route.gather);
}

// Compute waits for the gather and splits its output into the parameters.
void Fsdp2Gathers::WaitForUnshard(std::size_t g, Direction direction) {
  State& state = states_[g];
  if (!state.gathered) return;
  ReleaseOutput();
  rank_.Wait(rank_.compute(), *state.gathered);
  const Sharding& sharding = ShardingOf(g);
  const Bytes read =
      sharding.shards == 1 ? sharding.ShardOf(GroupAt(g).elements, sharding.storage) : Unsharded(g);
  const TaskId copied =
      rank_.Launch(rank_.compute(), CopyWork(read, Unsharded(g)), "copy_out " + GroupAt(g).name);
  rank_.graph().AddMemoryEvent(copied, /*at_end=*/false, "unsharded_parameters", Unsharded(g));
  if (state.is_from_resharded) {
    rank_.graph().AddMemoryEvent(copied, /*at_end=*/true, "resharded_parameters",
                                 Bytes{} - Resharded(g));
  }
  state.gathered.reset();
  state.is_from_resharded = false;
  state.form = Form::kUnsharded;
  if (sharding.shards == 1) return;
  held_ = g;
  held_until_ = rank_.Record(rank_.compute());
  const bool is_deferred =
      direction == Direction::kForward && !plan_.unshard_async_op && !is_ideal_;
  if (!is_deferred) ReleaseOutput();
}

// The gather output that compute has copied out of is given back: later gathers wait for that.
void Fsdp2Gathers::ReleaseOutput() {
  if (!held_) return;
  if (!is_ideal_ && !plan_.unshard_async_op) WaitWithGathers(held_until_);
  rank_.graph().AddMemoryEvent(held_until_.last, /*at_end=*/true, "gather_buffers",
                               Bytes{} - Unsharded(*held_));
  held_.reset();
}

void Fsdp2Gathers::ReshardAfterForward(std::size_t g) {
  if (!Reshards(g)) return;
  State& state = states_[g];
  if (resharding_.size == 0 || state.form != Form::kUnsharded) return Reshard(g);
  const TaskId copied = rank_.Launch(rank_.compute(), CopyWork(Resharded(g), Resharded(g)),
                                     "reshard " + GroupAt(g).name);
  rank_.graph().AddMemoryEvent(copied, /*at_end=*/false, "resharded_parameters", Resharded(g));
  Reshard(g);
  state.form = Form::kResharded;
  state.resharded = rank_.Record(rank_.compute());
}

void Fsdp2Gathers::Reshard(std::size_t g) {
  State& state = states_[g];
  if (state.form == Form::kResharded) {  // never gathered again
    rank_.graph().AddMemoryEvent(rank_.Record(rank_.compute()).last, /*at_end=*/true,
                                 "resharded_parameters", Bytes{} - Resharded(g));
  } else if (state.form == Form::kUnsharded) {
    rank_.graph().AddMemoryEvent(rank_.Record(rank_.compute()).last, /*at_end=*/true,
                                 "unsharded_parameters", Bytes{} - Unsharded(g));
  }
  state.form = Form::kSharded;
}

void Fsdp2Gathers::EndForward() {
  ReleaseOutput();
  if (is_ideal_ && resharding_.size > 0) GatherReshardedBeforehand();
}

}  // namespace stepsim
