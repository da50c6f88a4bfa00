#include "models/run_step.h"

#include <cstddef>
#include <utility>

#include "models/costly_settings.h"
#include "models/host_pace.h"
#include "models/memory_advice.h"
#include "models/simulate_job.h"
#include "models/step_context.h"
#include "models/step_trust.h"
#include "models/uneven_ranks.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/ceiling.h"

namespace stepsim {
namespace {

constexpr std::size_t kCeilings = 10;  // as many collectives as the longest list shows

}  // namespace

StepReport ReportStep(const ResolvedJob& resolved, const Workload& workload,
                      const SimulatedStep& step) {
  const JobSpec& job = resolved.job;
  StepReport report = BuildReport(step.graph, step.priced.costs, step.priced.choices, step.timeline,
                                  MakeStepContext(resolved, workload));
  report.in_flight = InFlight(job, report.rank_infos);
  AddTrust(step.graph, step.priced, job, &report);  // how far is it to be trusted?
  AddHostWarning(job, step.pace, &report);
  AddUnevenRanks(job, &report);  // does one rank stand for all?
  return report;
}

StepResult RunStep(const ResolvedJob& resolved) {
  const JobSpec& job = resolved.job;
  const Workload workload = BuildWorkload(job);     // how much work is a micro-step?
  SimulatedStep step = SimulateJob(job, workload);  // when does it happen, and why then?
  StepReport report = ReportStep(resolved, workload, step);
  CheckMemoryFits(job, &report);  // does it fit, and what would make it?
  if (!step.pace.is_slower()) {
    // What is there to win?
    AddCeilings(step.graph, step.priced.costs, kCeilings, &report, step.contention.get());
  }
  if (!job.host.synchronize) LimitCeilings(step.pace, &report);
  AddCostlySettings(job, &report);  // which settings cost time for nothing?
  return {std::move(step.graph), std::move(step.timeline), std::move(report)};
}

}  // namespace stepsim
