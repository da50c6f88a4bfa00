// How do an FSDP2 rank's gradients become sharded sums? Packs, reduce_scatters and, with HSDP,
// all_reduces, and what the micro-steps in between keep. One object per rank. Rules:
// models/README.md, "FSDP2".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/parallel/fsdp2_gathers.h"
#include "models/parallel/shard_groups.h"
#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"

namespace stepsim {

class Fsdp2Reductions {
 public:
  // Shares the queues of the process groups with `gathers`. REQUIRES: both outlive this object.
  Fsdp2Reductions(const StrategyContext& context, const ShardGroups& groups,
                  const Fsdp2Gathers& gathers);

  bool Reduces(const Moment& moment) const {
    return plan_.requires_gradient_sync || moment.is_last_microstep;
  }
  // Autograd adds to the gradient of the micro-step before, in its own type.
  bool AccumulatesInPlace(const Moment& moment) const {
    return IsFollowing(moment) && !KeepsApart();
  }

  void GradientReady(const Moment& moment, std::size_t g, std::int64_t elements);
  // Post-backward: first what is kept, then, behind the reshard, the reduction.
  void Accumulate(const Moment& moment, std::size_t g);
  void Reduce(const Moment& moment, std::size_t g);
  // The final callback.
  void Finish(const Moment& moment);

 private:
  struct State {
    Bytes gradients;                // unsharded, alive
    StreamEvent reduced;            // the post-reduce event
    std::int32_t gradient_of = -1;  // the step that left a sharded gradient
    bool has_partial = false;       // HSDP: a sum that the copies have not shared
  };

  bool IsFollowing(const Moment& moment) const {
    return !plan_.requires_gradient_sync && !moment.is_first_microstep;
  }
  // Unsharded gradients that wait for the last micro-step are kept in the reduction's type.
  bool KeepsApart() const { return types().gather != types().reduce; }
  const Sharding& types() const { return shardings_.dense; }  // those of all groups
  const Sharding& ShardingOf(std::size_t g) const { return shardings_.Of(GroupAt(g).is_expert); }
  const ReplicaGroups& RanksOf(std::size_t g) const {
    return GroupAt(g).is_expert ? experts_ : dense_;
  }
  StreamId CommunicatorOf(std::size_t g) const {
    if (communicator_ == kNoId<StreamId>) return gathers_.CommunicatorOf(g);
    return GroupAt(g).is_expert ? expert_communicator_ : communicator_;
  }
  const ShardGroup& GroupAt(std::size_t g) const { return groups_.groups[g]; }
  std::int32_t TensorsOf(std::size_t g) const {
    return static_cast<std::int32_t>(GroupAt(g).parameters.size());
  }
  std::int64_t PaddedOf(std::size_t g) const {
    return PaddedElements(GroupAt(g).elements, ShardingOf(g).shards);
  }
  void ChangeGradients(std::size_t g, Bytes delta, TaskId task);
  void Pack(const Moment& moment, std::size_t g);
  void ReduceScatter(std::size_t g);
  void FreeInput(TaskId task, bool at_end);
  void FinishReduce(const Moment& moment, std::size_t g);
  Bytes ShardBytes(std::size_t g) const {
    return SizeOf(types().reduce, PaddedOf(g) / ShardingOf(g).shards);
  }
  bool KeepsPartialSum(const Moment& moment, std::size_t g) const {
    return ShardingOf(g).replicas > 1 && !plan_.requires_all_reduce && !moment.is_last_microstep;
  }
  void AddToPartialSum(std::size_t g);
  void AllReduce(std::size_t g);
  void AddToGradient(const Moment& moment, std::size_t g, StreamId stream);

  RankProgram& rank_;
  const Fsdp2Plan& plan_;
  const Shardings shardings_;
  const ShardGroups& groups_;
  const Fsdp2Gathers& gathers_;
  const ReplicaGroups dense_, experts_;
  double pre_divide_ = 1, post_divide_ = 1;  // 1: the sum divides on its way
  std::vector<State> states_;
  bool is_ideal_;
  StreamId reduce_;
  StreamId communicator_ = kNoId<StreamId>, expert_communicator_ = kNoId<StreamId>;  // of its own
  StreamId all_reduce_ = kNoId<StreamId>;
  StreamEvent last_;  // reduce_scatter
  Bytes input_;       // of it, alive
};

}  // namespace stepsim
