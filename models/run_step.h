// The whole story on one screen: from a resolved job to a report.
#pragma once

#include "models/simulate_job.h"
#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// What a simulated step comes to: its accounts and how far they are to be trusted.
StepReport ReportStep(const ResolvedJob& resolved, const Workload& workload,
                      const SimulatedStep& step);

struct StepResult {
  TaskGraph graph;
  Timeline timeline;
  StepReport report;
};

// Throws SimulationError when the step cannot finish.
StepResult RunStep(const ResolvedJob& resolved);

}  // namespace stepsim
