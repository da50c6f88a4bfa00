// Megatron-LM's data parallelism, built by the strategy and run by the engine, against the start
// times of tests/data/schedules.vec and the rules of models/README.md, "Megatron data parallel".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/memory/memory.h"
#include "tests/support/sharded_traffic.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;
using ::testing::Pair;

JobSpec JobOf(MegatronPlan plan) {
  JobSpec job = JobWith("megatron");
  job.plan.megatron = std::move(plan);
  return job;
}

Workload Layers() { return WorkloadOf({{"L0", 10, 20}, {"L1", 10, 20}, {"L2", 10, 20}}); }

// The addition to the main gradient is part of the example's backward.
const Durations kDurations{.free = {"main_grad"}};

// One bucket per layer.
MegatronPlan Overlapped() {
  return {
      .use_distributed_optimizer = true, .overlap_grad_reduce = true, .ddp_bucket_size = kElements};
}
MegatronPlan OverlappedGathers() {
  MegatronPlan plan = Overlapped();
  plan.overlap_param_gather = true;
  return plan;
}

TEST(Megatron, DistributedOptimizerMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf(OverlappedGathers()), Layers(), kDurations),
                   Example("megatron-distopt"), kDurations);
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

// In iteration 1 the counts are being learned: reductions are issued at finish, one waited for
// after the other, and parameters need no gather.
TEST(Megatron, FirstIterationNeverOverlaps) {
  MegatronPlan plan = OverlappedGathers();
  plan.iteration = TrainingIteration::kFirst;
  const StepRun run = RunJob(JobOf(plan), Layers(), kDurations);
  EXPECT_THAT(
      StartsOf(run, kDurations),
      ElementsAre(Pair("L0.op.forward", 0), Pair("L1.op.forward", 10), Pair("L2.op.forward", 20),
                  Pair("L2.op.wgrad", 30), Pair("L1.op.wgrad", 50), Pair("L0.op.wgrad", 70),
                  Pair("scale bucket 1/3", 90), Pair("reduce_scatter bucket 1/3", 91),
                  Pair("scale bucket 2/3", 97), Pair("reduce_scatter bucket 2/3", 98),
                  Pair("scale bucket 3/3", 104), Pair("reduce_scatter bucket 3/3", 105),
                  Pair("optimizer", 111)));
}

// Only the last micro-step reduces, whatever the number of micro-steps; parameters are gathered in
// the first.
TEST(Megatron, ReducesInTheLastMicrostep) {
  JobSpec job = JobOf(OverlappedGathers());
  job.batch.gradient_accumulation_steps = 3;
  const StepRun run = RunJob(job, Layers(), kDurations);
  EXPECT_EQ(run.Count("reduce_scatter"), 3);
  EXPECT_EQ(run.Count("all_gather"), 3);
  EXPECT_EQ(run.Count("main_grad"), 9);
}

// average_in_collective leaves the scaling to NCCL.
TEST(Megatron, ScalesOnCompute) {
  MegatronPlan plan = Overlapped();
  EXPECT_EQ(RunJob(JobOf(plan), Layers(), kDurations).Count("scale"), 3);
  plan.average_in_collective = true;
  EXPECT_EQ(RunJob(JobOf(plan), Layers(), kDurations).Count("scale"), 0);
}

// ---- Instances of the optimizer ----

// Two of four ranks each: reduce_scatter inside, then the rank's part is summed across, bucket
// after bucket on one stream. By hand, 6 and 30 units; gathers of 6 after the optimizer.
TEST(Megatron, InstancesReduceAcrossThemselves) {
  MegatronPlan plan = Overlapped();
  plan.num_distributed_optimizer_instances = 2;
  const StepRun run = RunJob(JobOf(plan), Layers(), kDurations);
  Starts reductions;
  for (const auto& start : StartsOf(run, kDurations)) {
    if (start.first.find("reduce") != std::string::npos) reductions.push_back(start);
  }
  EXPECT_THAT(reductions, ElementsAre(Pair("reduce_scatter bucket 1/3", 51),
                                      Pair("all_reduce across instances bucket 1/3", 57),
                                      Pair("reduce_scatter bucket 2/3", 87),
                                      Pair("all_reduce across instances bucket 2/3", 93),
                                      Pair("reduce_scatter bucket 3/3", 123),
                                      Pair("all_reduce across instances bucket 3/3", 129)));
  EXPECT_EQ(run.makespan, 159 + 5 + 3 * 6);
  for (const CollectiveWork& work : CollectivesOf(run, Site::kGradientReduce)) {
    const auto& ranks = run.graph.group(work.group).ranks;
    if (work.op == CollectiveOp::kAllReduce) {
      EXPECT_THAT(ranks, ElementsAre(0, 4));
      EXPECT_EQ(work.bytes.value, kElements / 4 * 4);  // the part of one of four ranks
    } else {
      EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
    }
  }
  for (const CollectiveWork& work : CollectivesOf(run, Site::kParameterGather)) {
    EXPECT_THAT(run.graph.group(work.group).ranks, ElementsAre(0, 1, 2, 3));
  }
}

// ---- fp32 accumulation ----

// all_to_all and a local sum; a bucket waits for the one before. By hand: bucket 2 is complete at
// 71, sums bucket 1 (arrived at 57), is scaled and sent at 73.
TEST(Megatron, Fp32AccumulationSumsLocally) {
  JobSpec job = JobOf(Overlapped());
  job.plan.megatron.grad_reduce_in_fp32 = false;
  job.plan.megatron.reduce_scatter_with_fp32_accumulation = true;
  job.optimizer = OptimizerKind::kAdamW;  // whose work is no equal of a sum's
  const StepRun run = RunJob(job, Layers(), kDurations);
  Starts behind;
  for (const auto& start : StartsOf(run, kDurations)) {
    if (start.first.find("bucket") != std::string::npos) behind.push_back(start);
  }
  behind.resize(9);  // without the gathers
  EXPECT_THAT(behind, ElementsAre(Pair("scale bucket 1/3", 50), Pair("all_to_all bucket 1/3", 51),
                                  Pair("sum bucket 1/3", 71), Pair("scale bucket 2/3", 72),
                                  Pair("all_to_all bucket 2/3", 73), Pair("sum bucket 2/3", 93),
                                  Pair("scale bucket 3/3", 94), Pair("all_to_all bucket 3/3", 95),
                                  Pair("sum bucket 3/3", 101)));
  EXPECT_EQ(run.Start("optimizer"), 102);
  ExpectMemoryReturns(run);
  EXPECT_EQ(MemoryOf(run).most.at("buckets"), kElements * 4);  // one at a time
}

// ---- What is sent ----

// bf16 gradients are reduced in fp32 unless told otherwise; buckets are padded to lcm(ranks, 128).
TEST(Megatron, BytesOnTheWire) {
  JobSpec job = JobOf({.use_distributed_optimizer = true});
  job.precision.compute = DType::kBf16;
  Workload workload = WorkloadOf({{"a", 1, 2}});
  workload.parameters[0].elements = 1000;
  for (const bool fp32 : {true, false}) {
    if (!fp32) job.plan.megatron.grad_reduce_in_fp32 = false;
    const StepRun run = RunJob(job, workload, kDurations);
    EXPECT_EQ(BytesOf(run, CollectiveOp::kReduceScatter, Site::kGradientReduce),
              1024 * (fp32 ? 4 : 2));
    EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 1024 * 2);
  }
  job.plan.megatron.use_distributed_optimizer = false;
  const StepRun run = RunJob(job, workload, kDurations);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllReduce, Site::kGradientReduce), 1000 * 2);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 0);
}

// ---- The ceiling ----

// plan.ideal: all gathers back to back from the begin, with and without the overlap.
TEST(Megatron, IdealGathersWaitForNothing) {
  const Durations durations{.gather = 25, .free = {"main_grad"}};
  for (const bool overlaps : {true, false}) {
    JobSpec job = JobOf(overlaps ? OverlappedGathers() : Overlapped());
    const std::int64_t real = RunJob(job, Layers(), durations).makespan;
    job.plan.ideal = true;
    const StepRun run = RunJob(job, Layers(), durations);
    Starts gathers;
    for (const auto& start : StartsOf(run, durations)) {
      if (start.first.rfind("all_gather", 0) == 0) gathers.push_back(start);
    }
    EXPECT_THAT(gathers,
                ElementsAre(Pair("all_gather bucket 3/3", 0), Pair("all_gather bucket 2/3", 25),
                            Pair("all_gather bucket 1/3", 50)));
    EXPECT_LE(run.makespan, real);
  }
}

// ---- Memory ----

// Section 5.3, Adam, bytes per parameter, bf16 with fp32 main gradients: 18; 6 + 12/d with the
// distributed optimizer, d the ranks of one instance.
TEST(Megatron, BytesPerParameter) {
  Workload workload = WorkloadOf({{"a", 1, 2}});
  workload.parameters[0].elements = 8000;
  const auto bytes = [&](MegatronPlan plan) {
    JobSpec job = JobOf(std::move(plan));
    job.precision.compute = DType::kBf16;
    job.optimizer = OptimizerKind::kAdamW;
    std::int64_t sum = 0;
    for (const auto& [category, size] : StaticMemory(job, workload)) sum += size.value;
    return sum;
  };
  EXPECT_EQ(bytes({}), 18 * 8000);
  EXPECT_EQ(bytes({.use_distributed_optimizer = true}), 6 * 8000 + 12 * 1000);
  EXPECT_EQ(bytes({.use_distributed_optimizer = true, .num_distributed_optimizer_instances = 4}),
            6 * 8000 + 12 * 4000);
}

TEST(Megatron, MemoryReturnsToTheBuffers) {
  JobSpec job = JobOf(OverlappedGathers());
  job.batch.gradient_accumulation_steps = 2;
  ExpectMemoryReturns(RunJob(job, Layers()));
}

}  // namespace
}  // namespace stepsim
