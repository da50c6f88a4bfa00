// DeepSpeed's stages 1 and 2, built by the strategy and run by the engine, against the start times
// of the worked schedules of tests/data/schedules.vec and the rules of models/README.md, "ZeRO".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "models/memory/memory.h"
#include "tests/support/sharded_traffic.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;
using ::testing::Pair;

JobSpec JobOf(ZeroPlan plan) {
  JobSpec job = JobWith("zero");
  job.plan.zero = std::move(plan);
  return job;
}

// Layers of which only backward takes time.
Workload Layers(int count) {
  std::vector<UnitOfTest> units;
  for (int i = 0; i < count; ++i) units.push_back({"l" + std::to_string(i), 0, 20});
  return WorkloadOf(units);
}

// What the examples count as part of a reduction or of the optimizer. Forward is no part of them.
Durations DurationsOf(std::int64_t all_reduce, std::vector<std::string> more = {}) {
  Durations durations{
      .gather = 10, .all_reduce = all_reduce, .free = {"divide", "keep own", "norm", "unscale"}};
  for (int i = 0; i < 6; ++i) durations.free.push_back("l" + std::to_string(i) + ".op.forward");
  for (std::string& name : more) durations.free.push_back(std::move(name));
  return durations;
}

// Six equal parameters, two per bucket.
TEST(Zero2, OverlapMatchesTheSpecification) {
  const Durations durations = DurationsOf(60);
  const StepRun run =
      RunJob(JobOf({.stage = 2, .overlap_comm = true, .reduce_bucket_size = 2 * kElements}),
             Layers(6), durations);
  ExpectLineByLine(run, Example("zero2-overlap"), durations);
}

// ---- When reductions run ----

// Without overlap a flush stalls compute: one layer per bucket, reductions of 6. Each bucket is
// reduced in the hook of the next gradient, before that one is copied.
TEST(Zero2, WithoutOverlapStallsCompute) {
  const Durations durations = DurationsOf(6);
  const StepRun run =
      RunJob(JobOf({.stage = 2, .reduce_bucket_size = kElements}), Layers(3), durations);
  EXPECT_THAT(StartsOf(run, durations),
              ElementsAre(Pair("l2.op.wgrad", 0), Pair("copy l2", 20), Pair("l1.op.wgrad", 21),
                          Pair("all_reduce bucket 1", 41), Pair("copy l1", 47),
                          Pair("l0.op.wgrad", 48), Pair("all_reduce bucket 2", 68),
                          Pair("copy l0", 74), Pair("all_reduce bucket 3", 75),
                          Pair("optimizer", 81), Pair("all_gather parameters", 86)));
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    EXPECT_EQ(run.graph.stream(run.graph.streams(t).front()).name, "compute");
  }
}

// UC052, deepspeedai/DeepSpeed#8364: at a flush compute waits for the reduction before, so only one
// is in flight: what is longer than a layer's backward is exposed at every bucket, where DDP's
// queue goes on. By hand, layers of 20 and reductions of 30 (copies and the optimizer left out):
//   ZeRO-2: r1 40..70, r2 70..100, r3 100..130, r4 130..160, r5 160..190
//   DDP:    five back to back from 20 on: ..170
TEST(Zero2, Uc052_OneReductionInFlightIsNoFasterThanDdp) {
  const Durations durations = DurationsOf(30, {"copy", "optimizer", "all_gather", "zero"});
  const JobSpec zero = JobOf({.stage = 2, .overlap_comm = true, .reduce_bucket_size = kElements});
  const StepRun run = RunJob(zero, Layers(5), durations);
  EXPECT_EQ(run.Start("all_reduce bucket 1"), 40);
  EXPECT_EQ(run.Start("l1.op.wgrad"), 70);  // after r1
  EXPECT_EQ(run.Start("all_reduce bucket 5"), 160);
  EXPECT_EQ(run.makespan, 190);

  JobSpec ddp = JobWith("ddp");
  ddp.plan.ddp.bucket_cap_mb = 4.0;  // one layer of 2^20 fp32 elements
  for (const std::int64_t reduction : {5, 20, 21, 30, 60, 100}) {
    const Durations each = DurationsOf(reduction, {"copy", "optimizer", "all_gather"});
    const std::int64_t exposed =
        ExposedUnits(RunJob(zero, Layers(5), each), each, Site::kGradientReduce);
    EXPECT_GE(exposed, ExposedUnits(RunJob(ddp, Layers(5), each), each, Site::kGradientReduce))
        << reduction;
  }
}

// UC053, deepspeedai/DeepSpeed#6685 and #2463: with a bucket larger than the model there is one
// bucket, reduced after backward: nothing overlaps. Otherwise their number is that of the packing:
// tensors of the size of the bucket's share fill it.
TEST(Zero1, Uc053_OneBucketCannotOverlap) {
  JobSpec job = JobOf({.stage = 1,
                       .overlap_comm = true,
                       .reduce_bucket_size = 540'000'000,
                       .contiguous_gradients = false});
  const Durations durations = DurationsOf(60);
  const StepRun one = RunJob(job, Layers(6), durations);
  EXPECT_EQ(one.Count("all_reduce"), 1);
  EXPECT_EQ(one.Start("all_reduce bucket 1"), 6 * 20);
  EXPECT_EQ(ExposedUnits(one, durations, Site::kGradientReduce), 60);
  for (const std::int64_t per_bucket : {1, 2, 3, 4, 5, 6}) {
    job.plan.zero.reduce_bucket_size = per_bucket * kElements;
    EXPECT_EQ(RunJob(job, Layers(6), durations).Count("all_reduce"),
              (6 + per_bucket - 1) / per_bucket);
  }
}

// Without contiguous_gradients the host synchronises with the device before each reduction: by
// hand, the third layer's hook waits for its backward and for the reduction that began at 40.
TEST(Zero2, WithoutContiguousGradientsTheHostSynchronises) {
  const Durations durations = DurationsOf(60, {"optimizer", "all_gather"});
  const StepRun run = RunJob(JobOf({.stage = 2,
                                    .overlap_comm = true,
                                    .reduce_bucket_size = kElements,
                                    .contiguous_gradients = false}),
                             Layers(4), durations);
  EXPECT_THAT(StartsOf(run, durations),
              ElementsAre(Pair("l3.op.wgrad", 0), Pair("l2.op.wgrad", 20),
                          Pair("all_reduce bucket 1", 40), Pair("copy back bucket 1", 100),
                          Pair("l1.op.wgrad", 40), Pair("all_reduce bucket 2", 101),
                          Pair("copy back bucket 2", 161), Pair("l0.op.wgrad", 101),
                          Pair("all_reduce bucket 3", 162), Pair("copy back bucket 3", 222),
                          Pair("all_reduce bucket 4", 223), Pair("copy back bucket 4", 283)));
}

// ... and with reduces to the owners, once for each owner.
TEST(Zero2, ReducesToOwnersSynchroniseToo) {
  JobSpec job = JobOf({.stage = 2,
                       .overlap_comm = true,
                       .reduce_bucket_size = kElements,
                       .use_multi_rank_bucket_allreduce = false});
  job.gpus_per_node = 2;
  const Durations durations = DurationsOf(60, {"copy", "optimizer", "all_gather"});
  // Ranks own half of two layers each: every bucket has one owner. Reduces take 6.
  const StepRun run = RunJob(job, Layers(2), durations);
  EXPECT_THAT(StartsOf(run, durations),
              ElementsAre(Pair("l1.op.wgrad", 0), Pair("l0.op.wgrad", 20),
                          Pair("reduce bucket 1", 40), Pair("reduce bucket 2", 46)));
}

// Stage 1 without overlap reduces after backward, in the order of registration.
TEST(Zero1, WithoutOverlapReducesAfterBackward) {
  const Durations durations = DurationsOf(6);
  const StepRun run =
      RunJob(JobOf({.stage = 1, .reduce_bucket_size = 2 * kElements}), Layers(3), durations);
  EXPECT_THAT(StartsOf(run, durations),
              ElementsAre(Pair("l2.op.wgrad", 0), Pair("l1.op.wgrad", 20), Pair("l0.op.wgrad", 40),
                          Pair("copy l0", 60), Pair("copy l1", 61), Pair("all_reduce bucket 1", 62),
                          Pair("copy l2", 68), Pair("all_reduce bucket 2", 69),
                          Pair("optimizer", 75), Pair("all_gather parameters", 80)));
}

// A tensor larger than the bucket is reduced alone, where it lies.
TEST(Zero2, TensorsLargerThanTheBucketAreNotCopied) {
  Workload workload = Layers(3);
  workload.parameters[1].elements = 3 * kElements;
  const StepRun run =
      RunJob(JobOf({.stage = 2, .reduce_bucket_size = 2 * kElements}), workload, DurationsOf(6));
  EXPECT_EQ(run.Count("copy l"), 2);
  EXPECT_EQ(run.Count("all_reduce bucket"), 3);
}

// Stage 1 reduces at the accumulation boundary, stage 2 in every micro-step, and adds its
// partition.
TEST(Zero12, AccumulationFollowsTheStage) {
  JobSpec job = JobOf({.stage = 1, .reduce_bucket_size = kElements});
  job.batch.gradient_accumulation_steps = 3;
  const StepRun one = RunJob(job, ThreeLayers());
  EXPECT_EQ(one.Count("all_reduce bucket"), 5);
  EXPECT_EQ(one.Count("accumulate embedding"), 2);
  EXPECT_EQ(one.Count("accumulate partition"), 0);
  job.plan.zero.stage = 2;
  const StepRun two = RunJob(job, ThreeLayers());
  EXPECT_EQ(two.Count("all_reduce bucket"), 3 * 5);
  EXPECT_EQ(two.Count("accumulate embedding"), 0);
  EXPECT_EQ(two.Count("accumulate partition"), 2);
}

// Where the host is modelled it is the thread that waits. Two steps are built; each ends its
// backward in a device-wide synchronise when overlapping, so the second optimizer is launched
// behind the second backward. Without overlap nobody waits, but for fp16's overflow flag.
TEST(Zero12, TheHostThreadWaits) {
  const auto last = [](bool overlaps, DType compute) {
    JobSpec job = JobOf({.stage = 2, .overlap_comm = overlaps, .reduce_bucket_size = kElements});
    job.precision.compute = compute;
    return LastLaunch(job, Layers(3), DurationsOf(6, {"copy", "optimizer", "all_gather"}));
  };
  EXPECT_EQ(last(false, DType::kBf16), 0);
  // By hand: backward 0..60, reductions 40..46, 60..66, 66..72; the same again behind.
  EXPECT_EQ(last(true, DType::kBf16), 2 * 72);
  // Backward and three reductions, one after the other.
  EXPECT_EQ(last(false, DType::kFp16), 2 * (60 + 3 * 6));
}

// ---- What is sent ----

// Section 4.2: an all_reduce of every gradient and one gather of the parameters, with and without
// reduce_scatter.
TEST(Zero12, MovesMoreThanDdp) {
  for (const int stage : {1, 2}) {
    for (const bool reduce_scatter : {true, false}) {
      const StepRun run = RunJob(
          JobOf(
              {.stage = stage, .reduce_bucket_size = kElements, .reduce_scatter = reduce_scatter}),
          ThreeLayers());
      EXPECT_EQ(BytesOf(run, CollectiveOp::kAllReduce, Site::kGradientReduce), 5 * kElements * 4);
      EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 5 * kElements * 4);
    }
  }
}

// Five tensors over eight ranks: every tensor has an owner more than partition ends lie inside it,
// 5 + 7 calls (one partition end in eight falls on a tensor's only at the very end); every gradient
// is sent once.
TEST(Zero2, OneReducePerOwner) {
  const StepRun run = RunJob(
      JobOf(
          {.stage = 2, .reduce_bucket_size = kElements, .use_multi_rank_bucket_allreduce = false}),
      ThreeLayers());
  EXPECT_EQ(run.Count("reduce bucket"), 12);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kReduce, Site::kGradientReduce), 5 * kElements * 4);
}

// Partitions are padded to two elements on each of eight ranks.
TEST(Zero2, PartitionsArePadded) {
  Workload workload = WorkloadOf({{"a", 1, 2}});
  workload.parameters[0].elements = 1001;
  const StepRun run = RunJob(JobOf({.stage = 2}), workload);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 1008 * 4);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllReduce, Site::kGradientReduce), 1001 * 4);
}

TEST(Zero2, GathersByBroadcastsOrInParts) {
  const StepRun broadcasts =
      RunJob(JobOf({.stage = 2, .allgather_partitions = false}), ThreeLayers());
  EXPECT_EQ(broadcasts.Count("broadcast parameters"), 8);
  EXPECT_EQ(BytesOf(broadcasts, CollectiveOp::kBroadcast, Site::kParameterGather),
            5 * kElements * 4);
  // The fallback: 5 tensors in buckets of 2 are 2 parts.
  const StepRun parts = RunJob(
      JobOf({.stage = 2, .allgather_into_tensor = false, .allgather_bucket_size = 2 * kElements}),
      ThreeLayers());
  EXPECT_EQ(parts.Count("all_gather parameters"), 2);
  EXPECT_EQ(BytesOf(parts, CollectiveOp::kAllGather, Site::kParameterGather), 5 * kElements * 4);
}

// bf16 gradients travel in fp32 when asked to.
TEST(Zero2, CommunicationDataType) {
  JobSpec job = JobOf({.stage = 2});
  job.precision.compute = DType::kBf16;
  EXPECT_EQ(BytesOf(RunJob(job, ThreeLayers()), CollectiveOp::kAllReduce, Site::kGradientReduce),
            5 * kElements * 2);
  job.plan.zero.communication_data_type = DType::kFp32;
  EXPECT_EQ(BytesOf(RunJob(job, ThreeLayers()), CollectiveOp::kAllReduce, Site::kGradientReduce),
            5 * kElements * 4);
}

// step(): the norm's one element before the optimizer; under fp16 an overflow flag too, which the
// host reads: by hand, compute that is launched behind it waits for it.
TEST(Zero12, StepLooksAtTheGradientsFirst) {
  JobSpec job = JobOf({.stage = 2});
  job.precision.compute = DType::kBf16;
  const StepRun bf16 = RunJob(job, ThreeLayers());
  EXPECT_EQ(BytesOf(bf16, CollectiveOp::kAllReduce, Site::kOptimizer), 4);
  EXPECT_LT(bf16.Start("norm: all_reduce"), bf16.Start("optimizer"));
  job.precision.compute = DType::kFp16;
  EXPECT_EQ(BytesOf(RunJob(job, ThreeLayers()), CollectiveOp::kAllReduce, Site::kOptimizer), 8);
  job.optimizer = OptimizerKind::kNone;
  EXPECT_EQ(BytesOf(RunJob(job, ThreeLayers()), CollectiveOp::kAllReduce, Site::kOptimizer), 0);
}

// ---- Memory ----

// Section 9.3, Adam, bytes per parameter on N ranks: 2 + 2 + 12/N, 2 + 14/N, and 16/N in stage 3.
// In stage 1 the gradients' 2 come with backward.
TEST(Zero, BytesPerParameter) {
  Workload workload = WorkloadOf({{"a", 1, 2}});
  workload.parameters[0].elements = 8000;
  for (const int stage : {1, 2, 3}) {
    JobSpec job = JobOf({.stage = stage});
    job.precision.compute = DType::kBf16;
    job.optimizer = OptimizerKind::kAdamW;
    std::int64_t bytes = 0;
    for (const auto& [category, size] : StaticMemory(job, workload)) bytes += size.value;
    const std::int64_t expected[] = {2 * 8000 + 12 * 1000, 2 * 8000 + 14 * 1000, 16 * 1000};
    EXPECT_EQ(bytes, expected[stage - 1]) << stage;
  }
}

// One buffer of the whole bucket size, two with overlap, none where nothing is copied.
TEST(Zero12, BucketBuffers) {
  const auto buckets = [](bool overlaps, bool contiguous) {
    return Resident(RunJob(JobOf({.stage = 2,
                                  .overlap_comm = overlaps,
                                  .reduce_bucket_size = 1000,
                                  .contiguous_gradients = contiguous}),
                           ThreeLayers()),
                    "buckets");
  };
  EXPECT_EQ(buckets(false, true), 4000);
  EXPECT_EQ(buckets(true, true), 8000);
  EXPECT_EQ(buckets(true, false), 0);
}

// Stage 2 drops a gradient once it is in the bucket, or has been reduced without one: at most the
// bucket's and the next gradient that finds it full.
TEST(Zero2, GradientsLiveUntilTheyAreReduced) {
  const Durations durations = DurationsOf(6);
  JobSpec job = JobOf({.stage = 2, .reduce_bucket_size = 2 * kElements});
  EXPECT_EQ(MemoryOf(RunJob(job, Layers(6), durations)).most.at("unsharded_gradients"),
            kElements * 4);
  job.plan.zero.contiguous_gradients = false;
  EXPECT_EQ(MemoryOf(RunJob(job, Layers(6), durations)).most.at("unsharded_gradients"),
            3 * kElements * 4);
}

// While the optimizer runs the partition's gradients are there in fp32 too.
TEST(Zero12, Fp32GradientsOfThePartition) {
  JobSpec job = JobOf({.stage = 1});
  EXPECT_EQ(MemoryOf(RunJob(job, ThreeLayers())).most["fp32_gradients"], 0);
  job.precision.compute = DType::kBf16;
  EXPECT_EQ(MemoryOf(RunJob(job, ThreeLayers())).most["fp32_gradients"], 5 * kElements / 8 * 4);
}

TEST(Zero12, MemoryReturnsToTheShards) {
  for (const int stage : {1, 2}) {
    for (const bool contiguous : {true, false}) {
      JobSpec job = JobOf({.stage = stage,
                           .overlap_comm = true,
                           .reduce_bucket_size = kElements,
                           .contiguous_gradients = contiguous});
      job.batch.gradient_accumulation_steps = 2;
      ExpectMemoryReturns(RunJob(job, ThreeLayers()));
    }
  }
}

}  // namespace
}  // namespace stepsim
