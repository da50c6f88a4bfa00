// From a timeline to a report: windows, accounts, collectives, memory.
#pragma once

#include "sim/engine/simulate.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// The last of the consecutive steps in the graph, on its slowest rank.
Window LastStepWindow(const TaskGraph& graph, const Timeline& timeline);

// Reports the last of the consecutive steps in the graph, from optimizer end to optimizer end on
// the slowest rank. A step that is alone begins at time zero and ends with its last task.
StepReport BuildReport(const TaskGraph& graph, const TaskCosts& costs,
                       IdVector<WorkId, CollectiveChoice> choices, const Timeline& timeline,
                       StepContext context);

// The same without collectives, choices and micro-steps: what all metrics need.
StepReport BuildTotals(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                       StepContext context);

}  // namespace stepsim
