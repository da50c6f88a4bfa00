// How much memory is in use, and of what? Replays the allocations and frees of each rank on the
// step's clock.
//
//   MemoryReplay replay(graph, timeline);
//   replay.Visit(rank, [&](const MemoryMoment& moment) { ... });   // moment.now[category], .total
#pragma once

#include <functional>
#include <vector>

#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// After one event.
struct MemoryMoment {
  SimTime time{};
  const std::vector<Bytes>& now;  // by category of the graph
  Bytes total;
  const MemoryEvent* event = nullptr;  // nullptr: what is there before all tasks
  bool is_last_of_time = true;         // no other event follows at the same time
};

// At equal times frees come before allocations.
class MemoryReplay {
 public:
  MemoryReplay(const TaskGraph& graph, const Timeline& timeline);

  void Visit(RankId rank, const std::function<void(const MemoryMoment&)>& visitor) const;

  struct Change {
    SimTime time{};
    const MemoryEvent* event = nullptr;
  };
  // All of a rank, in time order.
  const std::vector<Change>& changes(RankId rank) const { return changes_[Index(rank)]; }

 private:
  const TaskGraph& graph_;
  std::vector<std::vector<Change>> changes_;  // by rank
};

// Charged besides tensors: the category of this name is no part of what an allocator hands out.
inline constexpr const char* kContextMemory = "context";
inline constexpr const char* kAllocatorSlack = "allocator_slack";

// The moment of the window at which each rank holds the most, and of those the highest; of equal
// ranks the first. Every category of the graph is listed. `slack` >= 1: what an allocator reserves
// for a byte that comes and goes; above 1 the surplus is a category of its own.
MemoryReport PeakMemory(const TaskGraph& graph, const Timeline& timeline, const Window& window,
                        double slack = 1);

}  // namespace stepsim
