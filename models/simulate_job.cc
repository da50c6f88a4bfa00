#include "models/simulate_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "models/contention/contention.h"
#include "models/cost/host_cost.h"
#include "models/spec/pipeline_rules.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/memory_profile.h"

namespace stepsim {
namespace {

// The last stage of a pipeline launches its head too: where one host is late, all ranks are.
HostPace SlowestHost(const std::vector<HostWork>& hosts, const HostTimes& times) {
  HostPace slowest;
  for (const HostWork& work : hosts) {
    const Duration time = HostDuration(work, times);
    if (time > slowest.time) slowest = {work, time, {}};
  }
  return slowest;
}

TriedJob Measure(const JobSpec& job) {
  const SimulatedStep step = SimulateJob(job, BuildWorkload(job));
  const Window window = LastStepWindow(step.graph, step.timeline);
  return {window.length(),
          PeakMemory(step.graph, step.timeline, window, job.memory.allocator_slack).total};
}

// Micro-steps after which a long step only repeats itself: no schedule holds more than twice the
// pipeline and a group of them. 0: the job is not long, or has no two that are alike.
std::int64_t ShorterStep(const JobSpec& job, std::int64_t most_work) {
  const TransformerSpec* spec = TransformerOf(job);
  const PipelinePlan& pipeline = job.plan.pipeline;
  const std::int64_t microsteps = job.batch.gradient_accumulation_steps;
  if (spec == nullptr || spec->layers * microsteps * job.simulate.steps <= most_work) return 0;
  if (job.simulate.jitter > 0 || pipeline.file_schedule != nullptr) return 0;
  const std::int64_t group = std::max<std::int64_t>(pipeline.microbatch_group_size, 1);
  const std::int64_t shorter = 4 * std::lcm(job.plan.pipeline_parallel, group);
  return 4 * shorter <= microsteps ? shorter : 0;
}

}  // namespace

BuiltStep& JobGraphs::Get(HostThread host) {
  std::optional<BuiltStep>& built = host == HostThread::kAhead ? ahead_ : launching_;
  if (!built) built = BuildStep(job_, workload_, host);
  return *built;
}

TimedGraph TimeJob(const JobSpec& job, JobGraphs& graphs, HostThread host) {
  const BuiltStep& built = graphs.Get(host);  // who does what, after what?
  TimedGraph timed;
  timed.host = host;
  timed.priced = PriceGraph(built.graph, job);  // how long does each piece take alone?
  timed.contention = MakeContention(timed.priced.occupancy, job);  // and beside others?
  timed.timeline =
      Simulate(built.graph, timed.priced.costs, timed.contention.get());  // when, and why?
  timed.pace = SlowestHost(built.host_work, TimesOf(job));
  timed.pace.device = LastStepWindow(built.graph, timed.timeline).length();
  return timed;
}

// A host that is faster than the device runs ahead of it, more with every step: in the long run its
// launches cost nothing. One that is slower sets the pace. One that waits for the device at the end
// of each step, after each exchange of a pipeline or for the tokens of experts starts anew with
// each.
TimedGraph TimeJob(const JobSpec& job, JobGraphs& graphs) {
  if (job.host.synchronize || WaitsForTransfers(job) || HostReadsExpertCounts(job)) {
    return TimeJob(job, graphs, HostThread::kLaunches);
  }
  TimedGraph ahead = TimeJob(job, graphs, HostThread::kAhead);
  if (!ahead.pace.is_slower()) return ahead;
  TimedGraph launching = TimeJob(job, graphs, HostThread::kLaunches);
  launching.pace = ahead.pace;
  return launching;
}

SimulatedStep SimulateJob(const JobSpec& job, const Workload& workload) {
  JobGraphs graphs(job, workload);
  TimedGraph timed = TimeJob(job, graphs);
  return {std::move(graphs.Get(timed.host).graph), std::move(timed.priced),
          std::move(timed.contention), std::move(timed.timeline), timed.pace};
}

TriedJob TryJob(const JobSpec& job, std::int64_t most_work) {
  const std::int64_t shorter = ShorterStep(job, most_work);
  if (shorter == 0) return Measure(job);
  const auto with = [&job](std::int64_t microsteps) {
    JobSpec changed = job;
    changed.batch.gradient_accumulation_steps = microsteps;
    return Measure(changed);
  };
  const TriedJob once = with(shorter), twice = with(2 * shorter);
  const double more = static_cast<double>(job.batch.gradient_accumulation_steps - 2 * shorter) /
                      static_cast<double>(shorter);
  const auto go_on = [more](std::int64_t first, std::int64_t second) {
    return second + std::llround(more * static_cast<double>(second - first));
  };
  return {Duration{go_on(once.step.count(), twice.step.count())},
          Bytes{go_on(once.peak_memory.value, twice.peak_memory.value)}};
}

}  // namespace stepsim
