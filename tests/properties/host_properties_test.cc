// What does a host do to any step? A few hundred random jobs with hosts of every speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "models/cost/graph_cost.h"
#include "models/cost/host_cost.h"
#include "models/parallel/build_step.h"
#include "models/run_step.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr std::uint64_t kJobs = 300;

void ForEachJob(const std::function<void(ResolvedJob)>& check) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_THROW(check(testing::RandomJobWithHost(seed)));
    if (::testing::Test::HasFailure()) return;
  }
}

Duration StepOf(const ResolvedJob& job) { return RunStep(job).report.account().step; }

// The same device and events under a host that takes no time.
ResolvedJob WithIdealHost(ResolvedJob job) {
  HostSpec& host = job.job.host;
  host.event_handover = TimesOf(job.job).event_handover;
  host.launch = host.collective_call = host.graph_launch = Duration{};
  host.synchronize = false;
  return job;
}

// All that the thread of one rank does in a step.
Duration HostTime(const JobSpec& job) {
  return HostDuration(BuildStep(job, BuildWorkload(job)).host_work.front(), TimesOf(job));
}

bool RunsAhead(const JobSpec& job) { return !job.host.synchronize; }
bool IsSteady(const JobSpec& job) {
  return job.plan.strategy != "ddp" || job.plan.ddp.iteration == TrainingIteration::kSteady;
}

// Host and device are two chains, and the only edges between them lead from the first to the
// second: in the long run the slower one sets the pace, the other costs nothing.
TEST(Host, SetsThePaceOrCostsNothing) {
  int launch_bound = 0;
  ForEachJob([&](const ResolvedJob& job) {
    if (!RunsAhead(job.job) || !IsSteady(job.job)) return;
    const Duration device = StepOf(WithIdealHost(job));
    const Duration host = HostTime(job.job);
    EXPECT_EQ(StepOf(job), std::max(device, host));
    launch_bound += host > device ? 1 : 0;
  });
  EXPECT_GT(launch_bound, 10);
}

// The same, shown the long way: with the thread in the graph the third step already takes as long
// as one whose host is always ahead.
TEST(Host, OfAFastKindIsHiddenAfterTheFirstStep) {
  int hidden = 0;
  ForEachJob([&](ResolvedJob job) {
    if (!RunsAhead(job.job) || !IsSteady(job.job)) return;
    job.job.simulate.steps = 3;
    const Duration device = StepOf(WithIdealHost(job));
    if (HostTime(job.job) > device) return;
    const TaskGraph graph = BuildStep(job.job, BuildWorkload(job.job), HostThread::kLaunches).graph;
    const Timeline timeline = Simulate(graph, PriceGraph(graph, job.job).costs);
    EXPECT_EQ(LastStepWindow(graph, timeline).length(), device);
    ++hidden;
  });
  EXPECT_GT(hidden, 10);
}

// A host that waits at the end of each step can only lose, and never more than all of its launches.
TEST(Host, ThatSynchronizesLosesAtMostItsTime) {
  ForEachJob([](ResolvedJob job) {
    if (!IsSteady(job.job)) return;
    job.job.host.synchronize = false;
    const Duration ahead = StepOf(job);
    job.job.host.synchronize = true;
    const Duration synchronized = StepOf(job);
    EXPECT_GE(synchronized, ahead);
    EXPECT_LE(synchronized, StepOf(WithIdealHost(job)) + HostTime(job.job));
  });
}

// Fewer queues can only delay the start of a kernel.
TEST(Host, IsNeverSlowerWithMoreConnections) {
  ForEachJob([](ResolvedJob job) {
    Duration previous = Duration::max();
    for (const std::int64_t connections : {1, 3}) {  // three streams at most
      job.job.host.max_connections = connections;
      const Duration step = StepOf(job);
      EXPECT_LE(step, previous);
      previous = step;
    }
    job.job.host.max_connections = 8;
    EXPECT_EQ(StepOf(job), previous);
  });
}

}  // namespace
}  // namespace stepsim
