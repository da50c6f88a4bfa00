// DeepSpeed's steps, built by the strategies and run by the engine, against the start times of the
// schedule specification (tests/data/schedules.vec) and the rules of its section 4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;

JobSpec JobOf(ZeroPlan plan) {
  JobSpec job = JobWith("zero");
  job.plan.zero = std::move(plan);
  return job;
}

// What the examples count as part of a reduction or of the optimizer.
const Durations kDurations{.free = {"divide", "keep own", "norm", "unscale"}};

std::int64_t BytesOf(const StepRun& run, CollectiveOp op, Site site) {
  std::int64_t bytes = 0;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work == nullptr || work->op != op || run.graph.label(t).site != site) continue;
    bytes += work->bytes.value;
  }
  return bytes;
}

// Six equal parameters, two per bucket; forward is no part of the example and takes no time.
TEST(Zero2, OverlapMatchesTheSpecification) {
  const Workload workload = WorkloadOf(
      {{"l0", 0, 20}, {"l1", 0, 20}, {"l2", 0, 20}, {"l3", 0, 20}, {"l4", 0, 20}, {"l5", 0, 20}});
  const Durations durations{
      .gather = 10,
      .all_reduce = 60,
      .free = {"divide", "keep own", "norm", "unscale", "l0.op.forward", "l1.op.forward",
               "l2.op.forward", "l3.op.forward", "l4.op.forward", "l5.op.forward"}};
  const StepRun run =
      RunJob(JobOf({.stage = 2, .overlap_comm = true, .reduce_bucket_size = 2 * kElements}),
             workload, durations);
  ExpectLineByLine(run, Example("zero2-overlap"), durations);
}

// M2 is kept for its backward by a reuse distance of one module, the others are gathered again.
TEST(Zero3, SteadyStateMatchesTheSpecification) {
  const Workload workload = WorkloadOf({{"m0", 10, 20}, {"m1", 10, 20}, {"m2", 10, 20}});
  const StepRun run = RunJob(JobOf({.stage = 3,
                                    .reduce_bucket_size = kElements,
                                    .stage3_prefetch_bucket_size = kElements,
                                    .stage3_max_reuse_distance = kElements,
                                    .stage3_param_persistence_threshold = 0}),
                             workload, kDurations);
  ExpectLineByLine(run, Example("zero3-steady"), kDurations);
}

// Section 4.2: an all_reduce of every gradient and a gather of the parameters.
TEST(Zero2, MovesMoreThanDdp) {
  const StepRun run = RunJob(JobOf({.stage = 2, .reduce_bucket_size = kElements}), ThreeLayers());
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllReduce, Site::kGradientReduce), 5 * kElements * 4);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 5 * kElements * 4);
}

// Without overlap everything is on the compute stream: nothing is hidden.
TEST(Zero2, WithoutOverlapStallsCompute) {
  const StepRun run = RunJob(JobOf({.stage = 2, .reduce_bucket_size = kElements}), ThreeLayers());
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    EXPECT_EQ(run.graph.stream(run.graph.streams(t).front()).name, "compute");
  }
}

// Stage 1 reduces at the accumulation boundary, stage 2 in every micro-step.
TEST(Zero, AccumulationFollowsTheStage) {
  JobSpec job = JobOf({.stage = 1, .reduce_bucket_size = kElements});
  job.batch.gradient_accumulation_steps = 3;
  EXPECT_EQ(RunJob(job, ThreeLayers()).Count("all_reduce"), 5);
  job.plan.zero.stage = 2;
  EXPECT_EQ(RunJob(job, ThreeLayers()).Count("all_reduce"), 3 * 5);
}

// The default reuse distance keeps a small model whole from forward to backward.
TEST(Zero3, SmallModelsAreGatheredOnce) {
  const StepRun run =
      RunJob(JobOf({.stage = 3, .stage3_param_persistence_threshold = 0}), ThreeLayers());
  std::int64_t bytes = 0;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work != nullptr && work->op == CollectiveOp::kAllGather) bytes += work->bytes.value;
  }
  EXPECT_EQ(bytes, 5 * kElements * 4);
}

// What is smaller than the threshold stays; it is made equal again after the optimizer.
TEST(Zero3, PersistentParametersAreGatheredAfterTheStep) {
  const StepRun run = RunJob(
      JobOf({.stage = 3, .stage3_param_persistence_threshold = 2 * kElements}), ThreeLayers());
  EXPECT_EQ(run.Count("all_gather"), 1);
  EXPECT_EQ(run.starts.back().first, "all_gather persistent parameters");
}

TEST(Zero, MemoryReturnsToTheShards) {
  for (const int stage : {1, 2, 3}) {
    JobSpec job = JobOf({.stage = stage,
                         .reduce_bucket_size = kElements,
                         .stage3_prefetch_bucket_size = kElements,
                         .stage3_max_reuse_distance = kElements});
    job.batch.gradient_accumulation_steps = 2;
    ExpectMemoryReturns(RunJob(job, ThreeLayers()));
  }
}

}  // namespace
}  // namespace stepsim
