// What a small sharded step (sharded_step.h) sends, and when each of its tasks begins.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/sharded_step.h"

namespace stepsim::testing_sharded {

inline std::vector<CollectiveWork> CollectivesOf(const StepRun& run, Site site) {
  std::vector<CollectiveWork> works;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work != nullptr && run.graph.label(t).site == site) works.push_back(*work);
  }
  return works;
}

// Bytes of one kind of call, as nccl-tests counts them.
inline std::int64_t BytesOf(const StepRun& run, CollectiveOp op, Site site) {
  std::int64_t bytes = 0;
  for (const CollectiveWork& work : CollectivesOf(run, site)) {
    if (work.op == op) bytes += work.bytes.value;
  }
  return bytes;
}

using Starts = std::vector<std::pair<std::string, std::int64_t>>;

// All tasks that take time, in host order.
inline Starts StartsOf(const StepRun& run, const Durations& durations) {
  Starts starts;
  for (const auto& start : run.starts) {
    if (!durations.IsFree(start.first)) starts.push_back(start);
  }
  return starts;
}

// Communication of a site during which nothing computes, in the units of the examples.
inline std::int64_t ExposedUnits(const StepRun& run, const Durations& durations, Site site) {
  const TaskCosts costs = CostsOf(run.graph, durations);
  const RankAccount account =
      AccountRank(run.graph, costs, run.timeline, RankId{}, {kStepBegin, run.timeline.makespan});
  return account.exposed[static_cast<std::size_t>(site)] / kVecUnit;
}

// When the launching thread, whose work takes no time, begins its last task: 0 as long as it waits
// for nothing.
inline std::int64_t LastLaunch(const JobSpec& job, const Workload& workload,
                               const Durations& durations) {
  const TaskGraph graph = BuildStep(job, workload, HostThread::kLaunches).graph;
  const Timeline timeline = Simulate(graph, CostsOf(graph, durations));
  SimTime last{};
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.kind(t) == TaskKind::kHost) last = std::max(last, timeline.start[t]);
  }
  return last.time_since_epoch() / kVecUnit;
}

// What rank 0 holds all along.
inline std::int64_t Resident(const StepRun& run, const std::string& category) {
  const auto& categories = run.graph.memory_categories();
  const auto found = std::find(categories.begin(), categories.end(), category);
  if (found == categories.end()) return 0;
  const auto index = static_cast<std::size_t>(found - categories.begin());
  return run.graph.resident_memory(RankId{}, index).value;
}

}  // namespace stepsim::testing_sharded
