// How far are the times of this step to be trusted? What the fits of its kernels and collectives
// left, weighed by the time that each takes in it.
#pragma once

#include "models/cost/graph_cost.h"
#include "models/spec/job.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Ends the confidence line ("...; alone, 78% of kernel time within 3%, collectives within 7%
// (median)") and notes in the assumptions what lies outside the measured sizes. A price outside its
// fit counts twice its residual: there is no measurement that says how much more it should be.
void AddTrust(const TaskGraph& graph, const GraphCosts& priced, const JobSpec& job,
              StepReport* report);

}  // namespace stepsim
