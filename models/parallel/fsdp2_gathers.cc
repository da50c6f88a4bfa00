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
      sharding_(ShardingOf(context.job)),
      resharding_(ReshardingOf(context.job)),
      groups_(groups),
      reshards_(groups.groups.size(), resharding_.groups ? 1 : 0),
      states_(groups.groups.size()) {
  reshards_[kRoot] = resharding_.root ? 1 : 0;
  MarkKept(plan_.keep_after_forward, context.workload);
  const bool uses_own_streams = !plan_.unshard_async_op || is_ideal_;
  whole_.group = context.shard;
  // The hardware queues of a ceiling are those of what it is a ceiling for.
  whole_.copy_in = uses_own_streams ? rank_.AddStream("all_gather copy-in", !plan_.unshard_async_op)
                                    : rank_.compute();
  whole_.gather = rank_.AddStream(uses_own_streams ? "all_gather" : "nccl shard");
  whole_.communicator = communicator_ = rank_.AddCommunicator("communicator shard");
  if (resharding_.size == 0) return;
  small_ = whole_;
  small_.group = context.groups.Part(context.global_rank, resharding_.size, 1, "reshard",
                                     "a copy between forward and backward");
  small_.communicator = rank_.AddCommunicator("communicator reshard");
  if (!uses_own_streams) small_.gather = rank_.AddStream("nccl reshard");
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
  return SizeOf(sharding_.gather, PaddedElements(GroupAt(g).elements, sharding_.shards));
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
  if (resharding_.size == 0 && sharding_.shards > 1) {
    for (std::size_t i = states_.size(); i-- > 0;) {
      const std::size_t g = i + 1 < states_.size() ? i + 1 : kRoot;  // the root first
      if (GathersInBackward(g) && GroupAt(g).elements > 0) {
        states_[g].gathered_for_backward = Gather(g, /*is_resharded=*/false);
      }
    }
  }
  rank_.LaunchBeforehand(false);
}

// The smaller copies are made behind each forward.
void Fsdp2Gathers::GatherReshardedBeforehand() {
  rank_.LaunchBeforehand(true);
  for (std::size_t i = states_.size(); i-- > 0;) {
    const std::size_t g = i + 1 < states_.size() ? i + 1 : kRoot;
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
  state.gathered = sharding_.shards == 1 ? StreamEvent{} : Gather(g, state.is_from_resharded);
}

// The shards are cast and packed into the gather's output, then gathered in place.
StreamEvent Fsdp2Gathers::Gather(std::size_t g, bool is_resharded) {
  const std::string& name = GroupAt(g).name;
  const Route& route = is_resharded ? small_ : whole_;
  const std::int64_t elements = GroupAt(g).elements;
  const Bytes stored = is_resharded ? Resharded(g) : sharding_.ShardOf(elements, sharding_.storage);
  const Bytes packed = is_resharded ? Resharded(g) : sharding_.ShardOf(elements, sharding_.gather);
  if (is_resharded) WaitWithGathers(states_[g].resharded);
  const TaskId copied = rank_.Launch(route.copy_in, CopyWork(stored, packed), "copy_in " + name);
  rank_.graph().AddMemoryEvent(copied, /*at_end=*/false, "gather_buffers", Unsharded(g));
  rank_.Wait(route.gather, rank_.Record(route.copy_in));
  rank_.LaunchCollective(route.gather,
                         {CollectiveOp::kAllGather, sharding_.gather, Unsharded(g), route.group},
                         "all_gather " + name, Site::kParameterGather, route.communicator);
  return rank_.Record(route.gather);
}

// Compute waits for the gather and splits its output into the parameters.
void Fsdp2Gathers::WaitForUnshard(std::size_t g, Direction direction) {
  State& state = states_[g];
  if (!state.gathered) return;
  ReleaseOutput();
  rank_.Wait(rank_.compute(), *state.gathered);
  const Bytes read = sharding_.shards == 1
                         ? sharding_.ShardOf(GroupAt(g).elements, sharding_.storage)
                         : Unsharded(g);
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
  if (sharding_.shards == 1) return;
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
