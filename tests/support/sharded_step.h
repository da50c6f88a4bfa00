// A small sharded step for tests: five units with one parameter each, priced as the examples of the
// schedule specification (tests/data/schedules.vec) are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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
  return job;
}

// Compute takes its FLOPs, a gather or reduce_scatter 6, an all_reduce 30, the optimizer 5, a copy
// 1: the durations of the examples, which count a division as part of its collective.
inline TaskCosts CostsOf(const TaskGraph& graph) {
  TaskCosts costs(graph.work_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    std::int64_t units = graph.label(t).name.rfind("divide", 0) == 0 ? 0 : 1;
    if (const auto* work = std::get_if<ComputeWork>(&graph.work(t)); work != nullptr) {
      if (work->flops.value > 0) units = static_cast<std::int64_t>(work->flops.value);
      if (graph.label(t).name == "optimizer") units = 5;
    } else if (const auto* collective = std::get_if<CollectiveWork>(&graph.work(t))) {
      units = collective->op == CollectiveOp::kAllReduce ? 30 : 6;
    }
    costs[graph.work_id(t)].isolated = kVecUnit * units;
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

inline StepRun RunJob(const JobSpec& job, const Workload& workload) {
  TaskGraph graph = BuildStep(job, workload);
  const TaskCosts costs = CostsOf(graph);
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

// Compares a run with an example, line by line in host order; lines of the host stream and
// divisions are left out.
inline void ExpectLineByLine(const StepRun& run, const VecExample& example) {
  std::vector<std::pair<std::string, std::int64_t>> tasks;
  for (const auto& start : run.starts) {
    if (start.first.rfind("divide", 0) != 0) tasks.push_back(start);
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

inline VecExample Example(const std::string& name) {
  for (const VecExample& example :
       ReadVecFile(std::string(STEPSIM_SOURCE_DIR) + "/tests/data/schedules.vec")) {
    if (example.name == name) return example;
  }
  ADD_FAILURE() << "no example " << name;
  return {};
}

}  // namespace stepsim::testing_sharded
