// The whole story on one screen: from a resolved job to a report.
#pragma once

#include "models/spec/job.h"
#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

struct StepResult {
  TaskGraph graph;
  Timeline timeline;
  StepReport report;
};

// Throws SimulationError when the step cannot finish.
StepResult RunStep(const ResolvedJob& resolved);

}  // namespace stepsim
