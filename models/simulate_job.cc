#include "models/simulate_job.h"

#include <utility>

#include "models/contention/contention.h"
#include "models/cost/host_cost.h"
#include "models/spec/pipeline_rules.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/memory_profile.h"

namespace stepsim {
namespace {

TimedGraph TimeGraph(const JobSpec& job, JobGraphs& graphs, HostThread host) {
  const BuiltStep& built = graphs.Get(host);  // who does what, after what?
  TimedGraph timed;
  timed.host = host;
  timed.priced = PriceGraph(built.graph, job);  // how long does each piece take alone?
  timed.contention = MakeContention(timed.priced.occupancy, job);  // and beside others?
  timed.timeline =
      Simulate(built.graph, timed.priced.costs, timed.contention.get());  // when, and why?
  timed.pace = {built.host_work, HostDuration(built.host_work, TimesOf(job)),
                LastStepWindow(built.graph, timed.timeline).length()};
  return timed;
}

}  // namespace

BuiltStep& JobGraphs::Get(HostThread host) {
  std::optional<BuiltStep>& built = host == HostThread::kAhead ? ahead_ : launching_;
  if (!built) built = BuildStep(job_, workload_, host);
  return *built;
}

// A host that is faster than the device runs ahead of it, more with every step: in the long run its
// launches cost nothing. One that is slower sets the pace. One that waits for the device at the end
// of each step, or after each exchange of a pipeline, starts anew with each.
TimedGraph TimeJob(const JobSpec& job, JobGraphs& graphs) {
  if (job.host.synchronize || WaitsForTransfers(job)) {
    return TimeGraph(job, graphs, HostThread::kLaunches);
  }
  TimedGraph ahead = TimeGraph(job, graphs, HostThread::kAhead);
  if (!ahead.pace.is_slower()) return ahead;
  TimedGraph launching = TimeGraph(job, graphs, HostThread::kLaunches);
  launching.pace = ahead.pace;
  return launching;
}

SimulatedStep SimulateJob(const JobSpec& job, const Workload& workload) {
  JobGraphs graphs(job, workload);
  TimedGraph timed = TimeJob(job, graphs);
  return {std::move(graphs.Get(timed.host).graph), std::move(timed.priced),
          std::move(timed.contention), std::move(timed.timeline), timed.pace};
}

TriedJob TryJob(const JobSpec& job) {
  const SimulatedStep step = SimulateJob(job, BuildWorkload(job));
  const Window window = LastStepWindow(step.graph, step.timeline);
  return {window.length(),
          PeakMemory(step.graph, step.timeline, window, job.memory.allocator_slack).total};
}

}  // namespace stepsim
