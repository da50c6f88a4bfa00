#include "models/study/try_step.h"

#include "models/simulate_job.h"
#include "models/step_context.h"
#include "models/uneven_ranks.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"

namespace stepsim {

StepReport TryStep(const ResolvedJob& resolved) {
  const Workload workload = BuildWorkload(resolved.job);
  const SimulatedStep step = SimulateJob(resolved.job, workload);
  StepReport report = BuildTotals(step.graph, step.priced.costs, step.timeline,
                                  MakeStepContext(resolved, workload));
  AddUnevenRanks(resolved.job, &report);
  return report;
}

}  // namespace stepsim
