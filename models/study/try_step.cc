#include "models/study/try_step.h"

#include "models/simulate_job.h"
#include "models/step_context.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"

namespace stepsim {

StepReport TryStep(const ResolvedJob& resolved) {
  const Workload workload = BuildWorkload(resolved.job);
  const SimulatedStep step = SimulateJob(resolved.job, workload);
  return BuildTotals(step.graph, step.priced.costs, step.timeline,
                     MakeStepContext(resolved, workload));
}

}  // namespace stepsim
