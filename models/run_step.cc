#include "models/run_step.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/cost/host_cost.h"
#include "models/host_pace.h"
#include "models/parallel/build_step.h"
#include "models/step_context.h"
#include "models/step_trust.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/ceiling.h"

namespace stepsim {
namespace {

constexpr std::size_t kCeilings = 10;  // as many collectives as the longest list shows

struct SimulatedStep {
  TaskGraph graph;
  GraphCosts priced;
  std::unique_ptr<Interference> contention;
  Timeline timeline;
  HostPace pace;
};

SimulatedStep SimulateStep(const JobSpec& job, const Workload& workload, HostThread host) {
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

// A host that is faster than the device runs ahead of it, more with every step: in the long run its
// launches cost nothing. One that is slower sets the pace. One that waits for the device at the end
// of each step starts anew with each.
SimulatedStep SimulateSteadyStep(const JobSpec& job, const Workload& workload) {
  if (job.host.synchronize) return SimulateStep(job, workload, HostThread::kLaunches);
  SimulatedStep ahead = SimulateStep(job, workload, HostThread::kAhead);
  if (!ahead.pace.is_slower()) return ahead;
  SimulatedStep launching = SimulateStep(job, workload, HostThread::kLaunches);
  launching.pace = ahead.pace;
  return launching;
}

}  // namespace

StepResult RunStep(const ResolvedJob& resolved) {
  const JobSpec& job = resolved.job;
  const Workload workload = BuildWorkload(job);            // how much work is a micro-step?
  SimulatedStep step = SimulateSteadyStep(job, workload);  // when does it happen, and why then?
  const TaskCosts& costs = step.priced.costs;
  StepReport report = BuildReport(step.graph, costs, std::move(step.priced.choices), step.timeline,
                                  MakeStepContext(resolved, workload));
  if (!step.pace.is_slower()) {
    // What is there to win?
    AddCeilings(step.graph, costs, kCeilings, &report, step.contention.get());
  }
  if (!job.host.synchronize) LimitCeilings(step.pace, &report);
  AddTrust(step.graph, step.priced, job, &report);  // how far is it to be trusted?
  AddHostWarning(job, step.pace, &report);
  AddWarnings(&report);  // what should the user know besides?
  return {std::move(step.graph), std::move(step.timeline), std::move(report)};
}

}  // namespace stepsim
