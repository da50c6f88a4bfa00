// Which parameters does an FSDP2 rank gather, on which streams, and how long do they stay? One
// object per rank. Rules: models/README.md, "FSDP2".
//
//   gathers.Unshard(g, Direction::kForward);         // copy-in, all_gather
//   gathers.WaitForUnshard(g, Direction::kForward);  // compute waits, copy-out
//   ... the group's kernels ...
//   gathers.ReshardAfterForward(g);
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/parallel/shard_groups.h"
#include "models/parallel/strategy.h"
#include "models/spec/sharding.h"

namespace stepsim {

class Fsdp2Gathers {
 public:
  enum class Direction { kForward, kBackward };

  // REQUIRES: `groups` outlives this object.
  Fsdp2Gathers(const StrategyContext& context, const ShardGroups& groups);

  // The queue of the process group that a copy of the group's parameters is sharded over.
  StreamId CommunicatorOf(std::size_t g) const {
    return (GroupAt(g).is_expert ? experts_ : whole_).communicator;
  }

  void BeginForward(const Moment& moment);
  void Unshard(std::size_t g, Direction direction);
  void WaitForUnshard(std::size_t g, Direction direction);
  void ReshardAfterForward(std::size_t g);
  void Reshard(std::size_t g);
  // At the end of forward.
  void EndForward();

 private:
  // Where a gather takes its input from, and over whom it runs.
  struct Route {
    GroupId group{};
    StreamId copy_in, gather, communicator;
  };

  enum class Form { kSharded, kUnsharded, kResharded };  // kResharded: over a few ranks
  struct State {
    Form form = Form::kSharded;
    std::optional<StreamEvent> gathered;               // a gather that nobody has waited for yet
    std::optional<StreamEvent> gathered_for_backward;  // plan.ideal
    StreamEvent resharded;                             // the smaller copy is there
    bool is_from_resharded = false;                    // the gather that is on its way
  };
  const ShardGroup& GroupAt(std::size_t g) const { return groups_.groups[g]; }
  const Sharding& ShardingOf(std::size_t g) const { return shardings_.Of(GroupAt(g).is_expert); }
  Route MakeRoute(GroupId group, const std::string& name) const;
  Bytes Unsharded(std::size_t g) const;
  Bytes Resharded(std::size_t g) const { return Bytes{Unsharded(g).value / resharding_.size}; }
  bool Reshards(std::size_t g) const { return reshards_[g] != 0; }
  bool GathersInBackward(std::size_t g) const { return reshards_[g] != 0 && !IsSkipped(g); }
  bool IsSkipped(std::size_t g) const;
  void MarkKept(const std::vector<std::string>& kept, const Workload& workload);

  StreamEvent Gather(std::size_t g, bool is_resharded);
  void GatherBeforehand();
  void GatherReshardedBeforehand();
  void ReleaseOutput();
  void WaitWithGathers(StreamEvent event);

  RankProgram& rank_;
  const Fsdp2Plan& plan_;
  const bool is_ideal_;
  const bool has_own_streams_;
  const Shardings shardings_;
  const Resharding resharding_;
  const ShardGroups& groups_;
  std::vector<char> reshards_;  // after forward
  std::vector<State> states_;
  Route whole_, small_, experts_;    // over the ranks of a copy; over resharding_.size of them
  std::optional<std::size_t> held_;  // whose gather output is alive behind its copy-out
  StreamEvent held_until_;
};

}  // namespace stepsim
