#include "models/simulate_job.h"

#include <utility>

#include "models/contention/contention.h"
#include "models/cost/host_cost.h"
#include "models/parallel/build_step.h"
#include "models/spec/pipeline_rules.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/memory_profile.h"

namespace stepsim {
namespace {

SimulatedStep SimulateWith(const JobSpec& job, const Workload& workload, HostThread host) {
  SimulatedStep step;
  BuiltStep built = BuildStep(job, workload, host);  // who does what, after what?
  step.graph = std::move(built.graph);
  step.priced = PriceGraph(step.graph, job);  // how long does each piece take alone?
  step.contention = MakeContention(step.priced.occupancy, job);  // and beside others?
  step.timeline = Simulate(step.graph, step.priced.costs, step.contention.get());  // when, and why?
  step.pace = {built.host_work, HostDuration(built.host_work, TimesOf(job)),
               LastStepWindow(step.graph, step.timeline).length()};
  return step;
}

}  // namespace

// A host that is faster than the device runs ahead of it, more with every step: in the long run its
// launches cost nothing. One that is slower sets the pace. One that waits for the device at the end
// of each step, or after each exchange of a pipeline, starts anew with each.
SimulatedStep SimulateJob(const JobSpec& job, const Workload& workload) {
  if (job.host.synchronize || WaitsForTransfers(job) || !HostWaitInStep(job).empty()) {
    return SimulateWith(job, workload, HostThread::kLaunches);
  }
  SimulatedStep ahead = SimulateWith(job, workload, HostThread::kAhead);
  if (!ahead.pace.is_slower()) return ahead;
  SimulatedStep launching = SimulateWith(job, workload, HostThread::kLaunches);
  launching.pace = ahead.pace;
  return launching;
}

TriedJob TryJob(const JobSpec& job) {
  const SimulatedStep step = SimulateJob(job, BuildWorkload(job));
  const Window window = LastStepWindow(step.graph, step.timeline);
  return {window.length(),
          PeakMemory(step.graph, step.timeline, window, job.memory.allocator_slack).total};
}

}  // namespace stepsim
