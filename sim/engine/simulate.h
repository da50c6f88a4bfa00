// When does it happen? The discrete-event loop: a graph without durations and costs without a graph
// become a timeline.
//
// Semantics (sim/README.md, "Engine semantics"): integer picoseconds; a task starts when all its
// dependencies are done and it heads every stream it occupies; the members of a rendezvous transfer
// from the last arrival and end together; equal times are ordered by (time, sequence number), so
// that two runs are byte-identical. With fixed costs the makespan is the longest path over
// dependencies plus stream order (graph_algorithms.h is the oracle).
#pragma once

#include <span>

#include "sim/base/ids.h"
#include "sim/graph/task_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

struct RunningTask {
  TaskId task{};
  WorkId work{};
  bool is_transferring = true;  // false: a transfer that waits, for its peers or for its place
  bool is_placed = true;        // false: it has no place on the device yet (StartDelay)
};

// A compute kernel that stands in the way of a transfer.
struct RunningKernel {
  TaskId task{};
  WorkId work{};
  Duration isolated{};   // its work
  Duration remaining{};  // what is left of it
};

// What running together costs. Asked once for every moment at which kernels start or end on a rank
// and leave two or more resident there, never in between; a kernel that is alone has rate 1. Host
// tasks do not run on the device: they neither count nor slow down.
class Interference {
 public:
  virtual ~Interference() = default;
  // rates[i] is the speed of running[i], in (0, 1]; it is 1 before the call. A collective advances
  // at the smallest rate that any of its ranks gives it.
  virtual void Rates(RankId rank, std::span<const RunningTask> running,
                     std::span<double> rates) = 0;

  // How long `transfer`, which becomes resident on `rank` now, waits until the compute kernels that
  // were there before it make room. Asked once, only when there are any. The members of a
  // rendezvous begin to transfer when the last of them has its place.
  virtual Duration StartDelay(RankId rank, const RunningTask& transfer,
                              std::span<const RunningKernel> running) {
    static_cast<void>(rank), static_cast<void>(transfer), static_cast<void>(running);
    return Duration::zero();
  }
};

// Runs the graph to its end. Throws SimulationError when the tasks wait for each other in a circle
// (the message names the cycle) or when the step would exceed the range of SimTime.
// REQUIRES: costs.size() == graph.work_count().
Timeline Simulate(const TaskGraph& graph, const TaskCosts& costs,
                  Interference* interference = nullptr);

}  // namespace stepsim
