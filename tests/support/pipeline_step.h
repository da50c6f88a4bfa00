// A small pipeline for tests: layers of one operator each, whose passes take given times, and
// transfers that take another. No parameters, no optimizer: what is left is the schedule.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/parallel/build_step.h"
#include "models/pipeline/schedule.h"
#include "models/spec/pipeline_rules.h"
#include "sim/engine/simulate.h"
#include "tests/support/vec.h"

namespace stepsim::testing_pipeline {

struct Times {
  int forward = 1;
  int input_gradient = 1;
  int weight_gradient = 1;
  int transfer = 0;
};

// One layer for every stage.
inline Workload LayersOf(std::int64_t stages, const Times& times) {
  const auto kernel = [](int time) {
    return ComputeWork{.compute_class = ComputeClass::kGemm, .flops = {double(time)}};
  };
  Workload workload;
  for (std::int64_t s = 0; s < stages; ++s) {
    Operator op;
    op.name = "op";
    op.forward = kernel(times.forward);
    op.backward_input = {kernel(times.input_gradient)};
    op.backward_weight = {kernel(times.weight_gradient)};
    workload.units.push_back({"layers." + std::to_string(s), {op}, Bytes{64}});
  }
  return workload;
}

inline JobSpec PipelineJob(const std::string& schedule, ScheduleShape shape,
                           PipelineRuntime runtime) {
  JobSpec job;
  job.gpus_per_node = shape.ranks;
  job.plan.strategy = "none";
  job.plan.pipeline_parallel = shape.ranks;
  job.plan.pipeline.schedule = schedule;
  job.plan.pipeline.virtual_stages = shape.chunks;
  job.plan.pipeline.microbatch_group_size = shape.group;
  job.plan.pipeline.runtime = runtime;
  job.plan.clip_gradients = false;
  job.batch.gradient_accumulation_steps = shape.microbatches;
  job.precision.compute = DType::kFp32;
  job.optimizer = OptimizerKind::kNone;
  job.host.launch = Duration::zero();
  return job;
}

struct PipelineRun {
  TaskGraph graph;
  Timeline timeline;

  std::int64_t makespan() const { return timeline.makespan.time_since_epoch() / kVecUnit; }
  std::int64_t StartOf(TaskId t) const { return timeline.start[t].time_since_epoch() / kVecUnit; }
  // Start times of one rank's kernels, in host order.
  std::vector<std::int64_t> ComputeStarts(std::uint32_t rank) const {
    std::vector<std::int64_t> starts;
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
      if (graph.rank(t) == RankId{rank} && graph.kind(t) == TaskKind::kCompute) {
        starts.push_back(StartOf(t));
      }
    }
    return starts;
  }
  // When the transfers of one rank move, in host order.
  std::vector<std::int64_t> TransferStarts(std::uint32_t rank) const {
    std::vector<std::int64_t> starts;
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
      if (graph.rank(t) != RankId{rank} || graph.kind(t) != TaskKind::kTransfer) continue;
      starts.push_back(TransferStart(graph, timeline, t).time_since_epoch() / kVecUnit);
    }
    return starts;
  }
};

inline PipelineRun RunPipeline(const JobSpec& job, const Times& times) {
  const std::int64_t stages = ScheduleOf(job).stages();
  TaskGraph graph = BuildStep(job, LayersOf(stages, times)).graph;
  TaskCosts costs(graph.work_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* kernel = std::get_if<ComputeWork>(&graph.work(t));
    const double time = kernel != nullptr ? kernel->flops.value : times.transfer;
    costs[graph.work_id(t)].isolated = kVecUnit * static_cast<std::int64_t>(time);
  }
  Timeline timeline = Simulate(graph, costs);
  return {std::move(graph), std::move(timeline)};
}

}  // namespace stepsim::testing_pipeline
