// A small sharded step for tests: five units with one parameter each, priced as the examples of the
// worked schedules of tests/data/schedules.vec are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/parallel/build_step.h"
#include "sim/engine/simulate.h"
#include "sim/metrics/accounting.h"
#include "tests/support/vec.h"

namespace stepsim::testing_sharded {

inline constexpr std::int64_t kElements = 1 << 20;

struct UnitOfTest {
  std::string name;
  int forward = 0;
  int backward = 0;
};

// One operator and one parameter a unit; FLOPs count the units of time.
inline Workload WorkloadOf(const std::vector<UnitOfTest>& units) {
  Workload workload;
  for (const UnitOfTest& unit : units) {
    Operator op;
    op.name = "op";
    op.forward = {.compute_class = ComputeClass::kGemm, .flops = {double(unit.forward)}};
    op.backward_weight = {{.compute_class = ComputeClass::kGemm, .flops = {double(unit.backward)}}};
    op.parameters_ready = {static_cast<std::int32_t>(workload.parameters.size())};
    workload.parameters.push_back({unit.name, kElements, DType::kFp32});
    workload.units.push_back({unit.name, {op}});
  }
  return workload;
}

inline Workload ThreeLayers() {
  return WorkloadOf({{"embedding", 2, 4},
                     {"layers.0", 10, 20},
                     {"layers.1", 10, 20},
                     {"layers.2", 10, 20},
                     {"head", 4, 8}});
}

inline JobSpec JobWith(const std::string& strategy) {
  JobSpec job;
  job.gpus_per_node = 8;
  job.precision.compute = DType::kFp32;
  job.plan.strategy = strategy;
  job.optimizer = OptimizerKind::kSgd;
  job.host.launch = Duration::zero();
  return job;
}

// Compute takes its FLOPs, the optimizer 5, a copy 1, a collective what stands here: the durations
// of the examples. Tasks whose names begin with one of `free` take no time: the examples count them
// as part of others.
struct Durations {
  std::int64_t gather = 6;
  std::int64_t reduce_scatter = 6;
  std::int64_t all_reduce = 30;
  std::vector<std::string> free = {"divide"};

  bool IsFree(const std::string& name) const {
    return std::any_of(free.begin(), free.end(),
                       [&](const std::string& prefix) { return name.rfind(prefix, 0) == 0; });
  }
};

inline std::int64_t UnitsOf(const Work& work, const std::string& name, const Durations& durations) {
  if (durations.IsFree(name)) return 0;
  if (const auto* kernel = std::get_if<ComputeWork>(&work)) {
    if (name == "optimizer") return 5;
    return kernel->flops.value > 0 ? static_cast<std::int64_t>(kernel->flops.value) : 1;
  }
  const auto* collective = std::get_if<CollectiveWork>(&work);
  if (collective == nullptr) return 0;  // the host
  if (collective->op == CollectiveOp::kAllReduce) return durations.all_reduce;
  return collective->op == CollectiveOp::kAllGather ? durations.gather : durations.reduce_scatter;
}

inline TaskCosts CostsOf(const TaskGraph& graph, const Durations& durations) {
  TaskCosts costs(graph.work_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    costs[graph.work_id(t)].isolated =
        kVecUnit * UnitsOf(graph.work(t), graph.label(t).name, durations);
  }
  return costs;
}

struct StepRun {
  TaskGraph graph;
  Timeline timeline;
  std::int64_t makespan = 0;
  std::vector<std::pair<std::string, std::int64_t>> starts;  // by label, in host order
  std::int64_t Start(const std::string& name) const {
    const auto found = std::find_if(starts.begin(), starts.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    EXPECT_NE(found, starts.end()) << name;
    return found == starts.end() ? -1 : found->second;
  }
  std::int64_t Count(const std::string& prefix) const {
    return std::count_if(starts.begin(), starts.end(),
                         [&](const auto& entry) { return entry.first.rfind(prefix, 0) == 0; });
  }
};

inline StepRun RunJob(const JobSpec& job, const Workload& workload,
                      const Durations& durations = {}) {
  TaskGraph graph = BuildStep(job, workload).graph;
  const TaskCosts costs = CostsOf(graph, durations);
  Timeline timeline = Simulate(graph, costs);
  for (const RankId r : AllIds<RankId>(graph.rank_count())) {
    AccountRank(graph, costs, timeline, r, {kStepBegin, timeline.makespan});
  }
  StepRun run{std::move(graph), std::move(timeline), 0, {}};
  run.makespan = run.timeline.makespan.time_since_epoch() / kVecUnit;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    run.starts.emplace_back(run.graph.label(t).name,
                            run.timeline.start[t].time_since_epoch() / kVecUnit);
  }
  return run;
}

// Compares a run with an example, line by line in host order; lines of the host stream and tasks
// that take no time are left out.
inline void ExpectLineByLine(const StepRun& run, const VecExample& example,
                             const Durations& durations = {}) {
  std::vector<std::pair<std::string, std::int64_t>> tasks;
  for (const auto& start : run.starts) {
    if (!durations.IsFree(start.first)) tasks.push_back(start);
  }
  std::size_t i = 0;
  for (const VecLine& line : example.lines) {
    if (line.stream == "H") continue;
    ASSERT_LT(i, tasks.size());
    EXPECT_EQ(tasks[i].second, example.expected.start.at(line.id))
        << tasks[i].first << " is line " << line.op;
    ++i;
  }
  EXPECT_EQ(i, tasks.size());
  EXPECT_EQ(run.makespan, example.expected.makespan);
}

// Everything that is taken in a step is given back.
inline void ExpectMemoryReturns(const StepRun& run) {
  std::map<std::string, std::int64_t> left;
  for (const MemoryEvent& event : run.graph.memory_events()) {
    left[run.graph.memory_categories()[event.category]] += event.delta.value;
  }
  for (const auto& [category, bytes] : left) EXPECT_EQ(bytes, 0) << category;
}

// What a run holds beside the shards, by category: the most at any moment, and at some moments.
struct RunMemory {
  std::map<std::string, std::map<std::int64_t, std::int64_t>> changes;  // category, time -> bytes
  std::map<std::string, std::int64_t> most;
  // Behind all changes of that time.
  std::int64_t At(std::int64_t time, const std::string& category) const {
    std::int64_t bytes = 0;
    const auto found = changes.find(category);
    if (found == changes.end()) return 0;
    for (const auto& [when, delta] : found->second) bytes += when <= time ? delta : 0;
    return bytes;
  }
};

inline RunMemory MemoryOf(const StepRun& run) {
  RunMemory memory;
  for (const MemoryEvent& event : run.graph.memory_events()) {
    const SimTime when =
        event.at_end ? run.timeline.end[event.task] : run.timeline.start[event.task];
    memory.changes[run.graph.memory_categories()[event.category]]
                  [when.time_since_epoch() / kVecUnit] += event.delta.value;
  }
  for (const auto& [category, series] : memory.changes) {
    std::int64_t bytes = 0;
    for (const auto& [when, delta] : series) {
      bytes += delta;
      memory.most[category] = std::max(memory.most[category], bytes);
    }
  }
  return memory;
}

inline VecExample Example(const std::string& name) {
  return ReadVecExample(STEPSIM_SOURCE_DIR "/tests/data/schedules.vec", name);
}

}  // namespace stepsim::testing_sharded
