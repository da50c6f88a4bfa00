// How much memory is in use, and of what? Replays the allocations and frees of each rank on the
// step's clock.
#pragma once

#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// The moment at which any rank holds the most, by category (a category that is empty then is listed
// with 0). At equal times frees come before allocations; of equal ranks the first is reported.
MemoryReport PeakMemory(const TaskGraph& graph, const Timeline& timeline);

}  // namespace stepsim
