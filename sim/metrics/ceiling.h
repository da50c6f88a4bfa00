// What is there to win? The step that would be left if one collective vanished: an upper bound of
// any gain from hiding or speeding up that collective.
#pragma once

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Runs the step again, once for each of the `most` largest exposed collectives of the report, with
// that collective taking no time on any rank, and notes what the step would save
// (CollectiveReport::saved). What is hidden behind the collective counts too: a bucket that delays
// others in its queue saves more than its own exposed time.
void AddCeilings(const TaskGraph& graph, const TaskCosts& costs, std::size_t most,
                 StepReport* report, Interference* interference = nullptr);

}  // namespace stepsim
