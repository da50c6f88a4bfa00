// DeepSpeed's stage 3, built by the strategy and run by the engine, against the start times of the
// worked schedules of tests/data/schedules.vec and the rules of models/README.md, "ZeRO".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/sharded_traffic.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;
using ::testing::Pair;

// What the examples count as part of a reduction or of the optimizer.
const Durations kDurations{.free = {"divide", "keep own", "norm", "unscale"}};

// A window, a bucket and a reuse distance of one module, as in the example.
ZeroPlan OneModule() {
  return {.stage = 3,
          .reduce_bucket_size = kElements,
          .stage3_prefetch_bucket_size = kElements,
          .stage3_max_reuse_distance = kElements,
          .stage3_param_persistence_threshold = 0};
}

JobSpec JobOf(ZeroPlan plan = OneModule()) {
  JobSpec job = JobWith("zero");
  job.plan.zero = std::move(plan);
  return job;
}

Workload ThreeModules() { return WorkloadOf({{"m0", 10, 20}, {"m1", 10, 20}, {"m2", 10, 20}}); }

// M2 is kept for its backward, the others are gathered again.
TEST(Zero3, SteadyStateMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf(), ThreeModules(), kDurations), Example("zero3-steady"),
                   kDurations);
}

// The first iterations by hand: every module is gathered for each use, in its own hook. The gather
// of m0 for backward is launched behind the reduction of m2's gradient, and NCCL keeps that order.
TEST(Zero3, FirstIteration) {
  ZeroPlan plan = OneModule();
  plan.iteration = TrainingIteration::kFirst;
  const StepRun run = RunJob(JobOf(plan), ThreeModules(), kDurations);
  EXPECT_THAT(
      StartsOf(run, kDurations),
      ElementsAre(Pair("all_gather m0", 0), Pair("assemble m0", 6), Pair("m0.op.forward", 7),
                  Pair("all_gather m1", 7), Pair("assemble m1", 13), Pair("m1.op.forward", 17),
                  Pair("all_gather m2", 14), Pair("assemble m2", 20), Pair("m2.op.forward", 27),
                  Pair("all_gather m2", 21), Pair("assemble m2", 27), Pair("m2.op.wgrad", 37),
                  Pair("copy m2", 57), Pair("all_gather m1", 28), Pair("assemble m1", 34),
                  Pair("m1.op.wgrad", 57), Pair("reduce_scatter bucket 1", 58), Pair("copy m1", 77),
                  Pair("all_gather m0", 64), Pair("assemble m0", 70), Pair("m0.op.wgrad", 77),
                  Pair("reduce_scatter bucket 2", 78), Pair("copy m0", 97),
                  Pair("reduce_scatter bucket 3", 98), Pair("optimizer", 104)));
  EXPECT_EQ(run.makespan, 109);
}

// ... with reductions on a communicator of their own it need not wait for that one.
TEST(Zero3, ASeparateReduceGroupLetsGathersPass) {
  ZeroPlan plan = OneModule();
  plan.iteration = TrainingIteration::kFirst;
  plan.separate_reduce_group = true;
  const StepRun run = RunJob(JobOf(plan), ThreeModules(), kDurations);
  std::vector<std::int64_t> gathers;
  for (const auto& [name, start] : run.starts) {
    if (name == "all_gather m0") gathers.push_back(start);
  }
  EXPECT_THAT(gathers, ElementsAre(0, 35));
}

// Without overlap everything is on the compute stream: gathers (6), assembling (1), reductions (6).
TEST(Zero3, WithoutOverlapEverythingIsExposed) {
  ZeroPlan plan = OneModule();
  plan.overlap_comm = false;
  plan.stage3_prefetch_bucket_size = 0;
  const StepRun run = RunJob(JobOf(plan), ThreeModules(), kDurations);
  // 5 gathers, 3 forwards, 3 backwards, 3 copies and reductions, the optimizer
  EXPECT_EQ(run.makespan, 5 * 7 + 3 * 10 + 3 * 20 + 3 * 7 + 5);
}

// ---- What is gathered ----

// Gathers plus reductions, each the parameters once: forward, backward, gradients.
TEST(Zero3, BytesOnTheWire) {
  ZeroPlan plan = OneModule();
  plan.stage3_max_reuse_distance = 0;
  const StepRun run = RunJob(JobOf(plan), ThreeLayers(), kDurations);
  const std::int64_t all = 5 * kElements * 4;
  // The last module's backward follows at once; the prefetcher has counted on it.
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather),
            2 * all - kElements * 4);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kReduceScatter, Site::kGradientReduce), all);
}

// The default reuse distance keeps a small model whole from forward to backward.
TEST(Zero3, SmallModelsAreGatheredOnce) {
  const StepRun run =
      RunJob(JobOf({.stage = 3, .stage3_param_persistence_threshold = 0}), ThreeLayers());
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 5 * kElements * 4);
}

// Every tensor is padded to the number of ranks, in gathers and in reductions.
TEST(Zero3, TensorsArePaddedOneByOne) {
  Workload workload = ThreeModules();
  for (ParameterTensor& tensor : workload.parameters) tensor.elements = 1001;
  const StepRun run =
      RunJob(JobOf({.stage = 3, .stage3_param_persistence_threshold = 0}), workload);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kAllGather, Site::kParameterGather), 3 * 1008 * 4);
  EXPECT_EQ(BytesOf(run, CollectiveOp::kReduceScatter, Site::kGradientReduce), 3 * 1008 * 4);
}

// What is smaller than the threshold stays; it is made equal again after the optimizer.
TEST(Zero3, PersistentParametersAreGatheredAfterTheStep) {
  const StepRun run = RunJob(
      JobOf({.stage = 3, .stage3_param_persistence_threshold = 2 * kElements}), ThreeLayers());
  EXPECT_EQ(run.Count("all_gather"), 1);
  EXPECT_EQ(run.starts.back().first, "all_gather persistent parameters");
  EXPECT_EQ(Resident(run, "persistent_parameters"), 5 * kElements * 4);
}

// One call for all missing parameters of a module, or one for each.
Workload TwoTensors() {
  Workload workload = ThreeModules();
  for (ModelUnit& unit : workload.units) {
    unit.operators[0].parameters_ready.push_back(
        static_cast<std::int32_t>(workload.parameters.size()));
    workload.parameters.push_back({unit.name + ".bias", 64, DType::kFp32});
  }
  return workload;
}
TEST(Zero3, SequentialGathersGoOneByOne) {
  ZeroPlan plan = OneModule();
  plan.stage3_prefetch_bucket_size = 0;
  EXPECT_EQ(RunJob(JobOf(plan), TwoTensors()).Count("all_gather"), 5);
  plan.stage3_allgather_sequential = true;
  EXPECT_EQ(RunJob(JobOf(plan), TwoTensors()).Count("all_gather"), 10);
}

// A tied head uses the embedding's table: it is gathered for the embedding, for the head (whose
// backward follows at once) and for the embedding's backward, which completes the gradient.
TEST(Zero3, ATiedHeadGathersTheTableAgain) {
  Workload workload = ThreeModules();
  workload.units[2].operators[0].parameters_ready = {};
  workload.units[2].operators[0].also_uses = {0};
  workload.parameters.pop_back();
  ZeroPlan plan = OneModule();
  plan.stage3_prefetch_bucket_size = 0;
  const StepRun run = RunJob(JobOf(plan), workload, kDurations);
  Starts gathers;
  for (const auto& start : StartsOf(run, kDurations)) {
    if (start.first.rfind("all_gather", 0) == 0) gathers.push_back(start);
  }
  // m0's reduction is the last, behind the embedding's backward.
  EXPECT_THAT(gathers, ElementsAre(Pair("all_gather m0", 0), Pair("all_gather m1", 7),
                                   Pair("all_gather m0", 14), Pair("all_gather m1", 21),
                                   Pair("all_gather m0", 28)));
  EXPECT_EQ(run.Count("reduce_scatter"), 2);
  EXPECT_EQ(run.Count("copy m0"), 1);
}

// What a checkpoint runs again is fetched again, also inside the backward of a leaf module.
TEST(Zero3, RecomputationFetchesAgain) {
  const auto layer = [](std::int32_t first) {
    ModelUnit unit{"layers." + std::to_string(first / 2), {}};
    for (std::int32_t i = 0; i < 2; ++i) {
      Operator op = ThreeModules().units[0].operators[0];
      op.name = "op" + std::to_string(i);
      op.parameters_ready = {first + i};
      unit.operators.push_back(op);
    }
    return unit;
  };
  Workload workload;
  for (std::int32_t p = 0; p < 4; ++p) {
    workload.parameters.push_back({"p" + std::to_string(p), kElements, DType::kFp32});
  }
  workload.units = {layer(0), layer(2)};
  // Before the last operator's backward both layers run again.
  workload.reruns = {{{1, 1}, {{{0, 0}, {}}, {{0, 1}, {}}, {{1, 0}, {}}, {{1, 1}, {}}}}};
  ZeroPlan plan = OneModule();
  plan.stage3_prefetch_bucket_size = 0;
  plan.stage3_max_reuse_distance = 0;
  const StepRun operators = RunJob(JobOf(plan), workload, kDurations);
  EXPECT_EQ(operators.Count("all_gather"), 4 + 4 + 4);  // forward, again, backward
  ExpectMemoryReturns(operators);
  plan.stage3_leaf_modules = LeafModules::kLayers;
  const StepRun leaves = RunJob(JobOf(plan), workload, kDurations);
  // Two layers forward, the second one's backward, in it the first one (a leaf module has hooks of
  // its own alone: it is one fetch), its backward.
  EXPECT_EQ(leaves.Count("all_gather"), 2 + 1 + 1 + 1);
  ExpectMemoryReturns(leaves);
}

// Where the host is modelled it is the thread that waits for the reductions at the end of backward;
// the second of two steps ends at 97 + 1 + 6 behind the first one's 109.
TEST(Zero3, TheHostThreadWaits) {
  EXPECT_EQ(LastLaunch(JobOf(), ThreeModules(), kDurations), 109 + 104);
}

// ---- Second copies inside the node (hpZ) ----

JobSpec TwoNodes(ZeroPlan plan) {
  JobSpec job = JobOf(std::move(plan));
  job.nodes = 2;
  job.gpus_per_node = 4;
  return job;
}

TEST(Zero3, SecondCopiesServeBackward) {
  ZeroPlan plan = OneModule();
  plan.zero_hpz_partition_size = 4;
  plan.stage3_max_reuse_distance = 0;
  const StepRun run = RunJob(TwoNodes(plan), ThreeModules(), kDurations);
  std::vector<std::size_t> sizes;
  for (const CollectiveWork& work : CollectivesOf(run, Site::kParameterGather)) {
    sizes.push_back(run.graph.group(work.group).ranks.size());
  }
  // m0, m1, m2 for forward; m1 and m0 for backward
  EXPECT_THAT(sizes, ElementsAre(8, 8, 8, 4, 4));
  EXPECT_EQ(run.Count("second copy"), 3);
  // A quarter of each parameter, until the optimizer has made it out of date.
  EXPECT_EQ(MemoryOf(run).most.at("secondary_parameters"), 3 * kElements * 4 / 4);
  ExpectMemoryReturns(run);
}

// They are made anew in each step and serve the forward of later micro-steps too.
TEST(Zero3, SecondCopiesServeLaterMicrosteps) {
  ZeroPlan plan = OneModule();
  plan.zero_hpz_partition_size = 4;
  JobSpec job = TwoNodes(plan);
  job.batch.gradient_accumulation_steps = 2;
  const StepRun run = RunJob(job, ThreeModules(), kDurations);
  std::int64_t across = 0;
  for (const CollectiveWork& work : CollectivesOf(run, Site::kParameterGather)) {
    if (run.graph.group(work.group).ranks.size() == 8) ++across;
  }
  EXPECT_EQ(across, 3);
  EXPECT_EQ(run.Count("second copy"), 3);
}

// ---- Leaf modules ----

// A layer is gathered in one call and hands its gradients over at its end: by hand, the copy of the
// second operator's gradient (the first of backward) begins when both are done.
TEST(Zero3, ALeafModuleIsFetchedAndReducedAsOne) {
  Workload workload = WorkloadOf({{"layers.0", 10, 20}});
  Operator second = workload.units[0].operators[0];
  second.name = "second";
  second.parameters_ready = {1};
  workload.units[0].operators.push_back(second);
  workload.parameters.push_back({"second", kElements, DType::kFp32});
  ZeroPlan plan = OneModule();
  plan.stage3_prefetch_bucket_size = 0;
  EXPECT_EQ(RunJob(JobOf(plan), workload, kDurations).Start("copy second"), 7 + 20 + 20);
  plan.stage3_leaf_modules = LeafModules::kLayers;
  const StepRun run = RunJob(JobOf(plan), workload, kDurations);
  // One gather of both (kept for backward: it follows at once), two tensors put together.
  EXPECT_EQ(run.Count("all_gather"), 1);
  EXPECT_EQ(run.Start("copy second"), 6 + 2 + 20 + 40);
}

// ---- Reductions ----

TEST(Zero3, EveryMicrostepReducesAndAccumulates) {
  JobSpec job = JobOf();
  job.batch.gradient_accumulation_steps = 3;
  const StepRun run = RunJob(job, ThreeModules(), kDurations);
  EXPECT_EQ(run.Count("reduce_scatter"), 9);
  EXPECT_EQ(run.Count("keep own slice"), 3);
  EXPECT_EQ(run.Count("accumulate bucket"), 6);
}

// If more than two reductions are unfinished, the host waits for the oldest. By hand, reductions of
// 100 from 21 on, layers of 20: the fourth flush, in m1's hook, waits until 121, and m0 with it.
TEST(Zero3, TheHostIsAtMostThreeReductionsAhead) {
  ZeroPlan plan = OneModule();
  plan.stage3_param_persistence_threshold = 2 * kElements;  // nothing to gather
  Durations durations{.reduce_scatter = 100, .free = kDurations.free};
  std::vector<UnitOfTest> units;
  for (const char* name : {"m0", "m1", "m2", "m3", "m4", "m5"}) {
    units.push_back({name, 0, 20});
    durations.free.push_back(std::string(name) + ".op.forward");
  }
  JobSpec job = JobOf(plan);
  const StepRun run = RunJob(job, WorkloadOf(units), durations);
  EXPECT_EQ(run.Start("m1.op.wgrad"), 80);
  EXPECT_EQ(run.Start("m0.op.wgrad"), 121);
  job.plan.ideal = true;
  EXPECT_EQ(RunJob(job, WorkloadOf(units), durations).Start("m0.op.wgrad"), 100);
}

// reduce_scatter: false sums the bucket as it lies; without contiguous gradients nothing is copied.
TEST(Zero3, KnobsOfTheBucket) {
  ZeroPlan plan = OneModule();
  plan.reduce_scatter = false;
  EXPECT_EQ(
      BytesOf(RunJob(JobOf(plan), ThreeModules()), CollectiveOp::kAllReduce, Site::kGradientReduce),
      3 * kElements * 4);
  plan.contiguous_gradients = false;
  const StepRun run = RunJob(JobOf(plan), ThreeModules());
  EXPECT_EQ(run.Count("copy"), 0);
  EXPECT_EQ(run.Count("reduce_scatter"), 3);
  EXPECT_EQ(Resident(run, "buckets"), 0);
  EXPECT_EQ(Resident(RunJob(JobOf(), ThreeModules()), "buckets"), kElements * 4);
}

// The optimizer updates its partition (3 x 2^20 / 8 elements) in sub-groups.
TEST(Zero3, SubGroups) {
  ZeroPlan plan = OneModule();
  EXPECT_EQ(RunJob(JobOf(plan), ThreeModules()).Count("optimizer"), 1);
  plan.sub_group_size = kElements / 8;
  EXPECT_EQ(RunJob(JobOf(plan), ThreeModules()).Count("optimizer"), 3);
  plan.sub_group_size = kElements / 8 + 1;  // the crossing tensor is inside
  EXPECT_EQ(RunJob(JobOf(plan), ThreeModules()).Count("optimizer"), 2);
}

// ... and has their gradients in fp32 one sub-group at a time.
TEST(Zero3, SubGroupsBoundTheFp32Gradients) {
  ZeroPlan plan = OneModule();
  plan.sub_group_size = kElements / 8;
  JobSpec job = JobOf(plan);
  job.precision.compute = DType::kBf16;
  EXPECT_EQ(MemoryOf(RunJob(job, ThreeModules())).most["fp32_gradients"], kElements / 8 * 4);
}

// ---- The ceiling ----

// plan.ideal by hand, gathers of 30: back to back from 0 on, where the real schedule waits for each
// parameter to be put together before it gathers ahead.
TEST(Zero3, IdealGathersWaitForNothing) {
  const Durations durations{.gather = 30, .free = kDurations.free};
  JobSpec job = JobOf();
  EXPECT_EQ(RunJob(job, ThreeModules(), durations).makespan, 186);
  job.plan.ideal = true;
  const StepRun run = RunJob(job, ThreeModules(), durations);
  std::vector<std::int64_t> gathers;
  for (const auto& [name, start] : run.starts) {
    if (name.rfind("all_gather", 0) == 0) gathers.push_back(start);
  }
  EXPECT_THAT(gathers, ElementsAre(0, 30, 60, 90, 120));
  // m0's backward 151..171, its copy, its reduction, the optimizer
  EXPECT_EQ(run.makespan, 171 + 1 + 6 + 5);
}

// ---- Memory ----

// Live: the module, what is gathered ahead, what is kept. With no window, one module.
TEST(Zero3, LiveParameters) {
  const auto most = [](std::int64_t window, std::int64_t reuse) {
    ZeroPlan plan = OneModule();
    plan.overlap_comm = false;  // gathers do not run ahead of compute
    plan.stage3_prefetch_bucket_size = window;
    plan.stage3_max_reuse_distance = reuse;
    return MemoryOf(RunJob(JobOf(plan), ThreeLayers())).most.at("unsharded_parameters") /
           (kElements * 4);
  };
  EXPECT_EQ(most(0, 0), 1);
  // At the turn: the last module, the one gathered ahead in its forward, the one in its backward.
  EXPECT_EQ(most(kElements, 0), 3);
  EXPECT_EQ(most(0, 1'000'000'000), 5);
}

TEST(Zero3, MemoryReturnsToTheShards) {
  for (const bool overlaps : {true, false}) {
    for (const bool contiguous : {true, false}) {
      ZeroPlan plan = OneModule();
      plan.overlap_comm = overlaps;
      plan.contiguous_gradients = contiguous;
      JobSpec job = JobOf(plan);
      job.batch.gradient_accumulation_steps = 2;
      ExpectMemoryReturns(RunJob(job, ThreeLayers()));
    }
  }
}

}  // namespace
}  // namespace stepsim
