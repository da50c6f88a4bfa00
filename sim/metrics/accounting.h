// Where did the time of a rank go? Exactly one state holds at any time of the step, so that
//
//   step = compute + contention + sum(exposed[site]) + peer_wait + bubble + host + idle
//
// exactly, in picoseconds (checked, always). Definitions: sim/README.md, "Accounting".
#pragma once

#include <array>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"
#include "sim/engine/simulate.h"
#include "sim/graph/site.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/segments.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// A part of the timeline: [begin, end).
struct Window {
  SimTime begin{};
  SimTime end{};
  Duration length() const { return end - begin; }
};

struct RankAccount {
  Duration step{};
  Duration compute{};
  Duration contention{};
  std::array<Duration, kSiteCount> exposed{};
  Duration peer_wait{};
  Duration bubble{};
  Duration host{};
  Duration idle{};

  // Beside the identity, as a profiler counts on this rank:
  Duration communication{};     // a communication kernel is resident (union)
  Duration profiler_exposed{};  // ... and no compute kernel runs

  Duration exposed_total() const;
  // 1 - profiler_exposed / communication; 0 without communication.
  double overlap_fraction() const;

  bool operator==(const RankAccount&) const = default;
};

// Everything that accounting needs to know about one rank, computed once for several windows.
struct RankActivity {
  RankTasks tasks;
  std::vector<Segment> segments;    // tile [0, makespan]
  std::vector<Interval> computing;  // unions
  std::vector<Interval> communicating;
};
std::vector<RankActivity> ObserveRanks(const TaskGraph& graph, const Timeline& timeline);

// Throws InternalError when the identity does not hold: a wrong split is never printed.
// REQUIRES: window lies within [0, makespan].
RankAccount AccountWindow(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                          const RankActivity& activity, Window window);

// The account of one rank over a window, from scratch.
RankAccount AccountRank(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                        RankId rank, Window window);

}  // namespace stepsim
