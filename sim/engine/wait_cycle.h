// Why can the step not finish? Names the tasks that wait for each other in a circle.
#pragma once

#include <string>

#include "sim/graph/task_graph.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// A task that never started (or a timeline slot never written) holds this time.
inline constexpr SimTime kNever = SimTime::max();

// One line per task of a cycle, found from the first unfinished task on:
//   rank 0: 'all_reduce a' on nccl waits for its peer on rank 1
//   rank 1: 'all_reduce a' on nccl waits for 'all_reduce b', issued before it on nccl
// REQUIRES: some task's end is kNever.
std::string DescribeWaitCycle(const TaskGraph& graph, const Timeline& timeline);

}  // namespace stepsim
