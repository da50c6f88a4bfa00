// Megatron-LM's data parallelism, built by the strategy and run by the engine, against the start
// times of the schedule specification (tests/data/schedules.vec) and the rules of its section 5.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;

JobSpec JobOf(MegatronPlan plan) {
  JobSpec job = JobWith("megatron");
  job.plan.megatron = std::move(plan);
  return job;
}

Workload Layers() { return WorkloadOf({{"L0", 10, 20}, {"L1", 10, 20}, {"L2", 10, 20}}); }

// The addition to the main gradient is part of the example's backward.
const Durations kDurations{.free = {"main_grad"}};

TEST(Megatron, DistributedOptimizerMatchesTheSpecification) {
  const StepRun run = RunJob(JobOf({.use_distributed_optimizer = true,
                                    .overlap_grad_reduce = true,
                                    .overlap_param_gather = true,
                                    .ddp_bucket_size = kElements}),
                             Layers(), kDurations);
  ExpectLineByLine(run, Example("megatron-distopt"), kDurations);
}

// Bucketing needs the overlap: without it one bucket, reduced after backward, gathered after the
// optimizer, nothing hidden.
TEST(Megatron, WithoutOverlapEverythingIsExposed) {
  const StepRun run = RunJob(JobOf({.use_distributed_optimizer = true}), Layers(), kDurations);
  EXPECT_EQ(run.Count("reduce_scatter"), 1);
  EXPECT_EQ(run.Count("all_gather"), 1);
  // forward 30, backward 60, scale 1, reduce_scatter 6, optimizer 5, gather 6
  EXPECT_EQ(run.makespan, 30 + 60 + 1 + 6 + 5 + 6);
}

// Section 5.1: max(40e6, 1e6 x ranks) elements; the crossing parameter is inside.
TEST(Megatron, DefaultBucketLimit) {
  Workload workload = WorkloadOf({{"a", 1, 2}, {"b", 1, 2}, {"c", 1, 2}});
  for (ParameterTensor& tensor : workload.parameters) tensor.elements = 30'000'000;
  JobSpec job = JobOf({.overlap_grad_reduce = true});
  EXPECT_EQ(RunJob(job, workload, kDurations).Count("all_reduce"), 2);  // {c, b}, {a}
  job.nodes = 8;                                                        // 64 ranks: 64e6
  EXPECT_EQ(RunJob(job, workload, kDurations).Count("all_reduce"), 1);  // {c, b, a}
}

// bf16 gradients are reduced in fp32 unless told otherwise; buckets are padded to lcm(ranks, 128).
TEST(Megatron, BytesOnTheWire) {
  JobSpec job = JobOf({.use_distributed_optimizer = true});
  job.precision.compute = DType::kBf16;
  Workload workload = WorkloadOf({{"a", 1, 2}});
  workload.parameters[0].elements = 1000;
  for (const bool fp32 : {true, false}) {
    if (!fp32) job.plan.megatron.grad_reduce_in_fp32 = false;
    const StepRun run = RunJob(job, workload, kDurations);
    for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
      const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
      if (work == nullptr) continue;
      const bool is_gather = work->op == CollectiveOp::kAllGather;
      EXPECT_EQ(work->bytes.value, 1024 * (is_gather || !fp32 ? 2 : 4));
    }
  }
}

// Only the last micro-step reduces, whatever the number of micro-steps.
TEST(Megatron, ReducesInTheLastMicrostep) {
  JobSpec job = JobOf({.overlap_grad_reduce = true, .ddp_bucket_size = kElements});
  job.batch.gradient_accumulation_steps = 3;
  const StepRun run = RunJob(job, Layers(), kDurations);
  EXPECT_EQ(run.Count("all_reduce"), 3);
  EXPECT_EQ(run.Count("main_grad"), 9);
}

}  // namespace
}  // namespace stepsim
