// What was the rank doing at each moment? Cuts a rank's step into segments with exactly one state.
//
//   compute   | F0 | F1 |    | B1 |                 the gap before B1 is cut where the cause of
//   nccl           | all_gather 1 |                 B1's start changes, or where a transfer of
//   segments  [compute][exposed:parameter_gather][compute]   this rank starts or ends
//
// The rules stand in sim/README.md, "Accounting".
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"
#include "sim/graph/site.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/intervals.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

enum class RankState : std::uint8_t { kCompute, kExposed, kPeerWait, kBubble, kHost, kIdle };

struct Segment {
  SimTime begin{};
  SimTime end{};
  RankState state = RankState::kIdle;
  Site site = Site::kNone;      // of kExposed
  TaskId task = kNoId<TaskId>;  // the kernel that computes, or what the gap waits for
};

// The tasks of one rank by kind, in id order.
struct RankTasks {
  RankId rank{};
  std::vector<TaskId> compute;
  std::vector<TaskId> transfers;
  // The stages of its pipeline: the ranks that pipeline transfers connect, in order, itself
  // included. Empty: it has none.
  std::vector<RankId> pipeline = {};
};
std::vector<RankTasks> TasksByRank(const TaskGraph& graph);

// Until when a transfer waits for another stage of its rank's pipeline; its own start when for
// none. What it waits longer is for others: copies of the model.
SimTime StagesArrive(const TaskGraph& graph, const Timeline& timeline,
                     const std::vector<RankId>& pipeline, TaskId task);

// Segments that tile [0, makespan] in time order. `tasks` is the rank's entry of TasksByRank.
std::vector<Segment> SplitRank(const TaskGraph& graph, const Timeline& timeline,
                               const RankTasks& tasks);

// When the rank computes / communicates (resident), as unions.
std::vector<Interval> BusyIntervals(const Timeline& timeline, const std::vector<TaskId>& tasks);

}  // namespace stepsim
