// FSDP1's steps, built by the strategy and run by the engine, against the start times of the
// worked schedules of tests/data/schedules.vec and the rules of models/README.md, "FSDP1".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "models/spec/sharding.h"
#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;

JobSpec JobOf(Fsdp1Plan plan = {}) {
  JobSpec job = JobWith("fsdp1");
  job.plan.fsdp1 = std::move(plan);
  return job;
}

TEST(Fsdp1, BackwardPreMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf(), ThreeLayers()), Example("fsdp1-backward-pre"));
}

TEST(Fsdp1, BackwardPostMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf({.backward_prefetch = BackwardPrefetch::kPost}), ThreeLayers()),
                   Example("fsdp1-backward-post"));
}

// The gather and the reduce_scatter of the same communicator: both exposed.
TEST(Fsdp1, WithoutPrefetchMatchesTheSpecification) {
  ExpectLineByLine(RunJob(JobOf({.backward_prefetch = BackwardPrefetch::kNone}), ThreeLayers()),
                   Example("fsdp1-no-prefetch"));
}

// Gathers per pass: FULL_SHARD two of each unit and one of the root; SHARD_GRAD_OP one of each;
// NO_SHARD none, and an all_reduce in the place of the reduce_scatter.
TEST(Fsdp1, StrategiesDecideWhatIsGathered) {
  EXPECT_EQ(RunJob(JobOf(), ThreeLayers()).Count("all_gather"), 2 * 3 + 1);
  const StepRun zero2 =
      RunJob(JobOf({.sharding_strategy = ShardingStrategy::kShardGradOp}), ThreeLayers());
  EXPECT_EQ(zero2.Count("all_gather"), 4);
  EXPECT_EQ(zero2.Count("reduce_scatter"), 4);
  const StepRun none =
      RunJob(JobOf({.sharding_strategy = ShardingStrategy::kNoShard}), ThreeLayers());
  EXPECT_EQ(none.Count("all_gather"), 0);
  EXPECT_EQ(none.Count("reduce_scatter"), 0);
  EXPECT_EQ(none.Count("all_reduce"), 4);
}

// Hybrid: shards inside a node of 4, copies across 2 nodes.
TEST(Fsdp1, HybridShardsUseTwoGroups) {
  JobSpec job = JobOf({.sharding_strategy = ShardingStrategy::kHybridShard});
  job.nodes = 2;
  job.gpus_per_node = 4;
  const StepRun run = RunJob(job, ThreeLayers());
  EXPECT_EQ(run.Count("all_reduce"), 4);
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work == nullptr) continue;
    const auto& ranks = run.graph.group(work->group).ranks;
    if (work->op == CollectiveOp::kAllReduce) {
      EXPECT_THAT(ranks, ElementsAre(0, 4));
    } else {
      EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
    }
  }
}

// Section 2.3: compute waits for the reductions at the end of backward, and the next forward's
// gathers for compute. With reductions in each micro-step, r3 ends at 80 (fsdp1-backward-pre) and
// four all_reduces of 30 follow.
TEST(Fsdp1, TheNextMicrostepGathersBehindTheReductions) {
  JobSpec job = JobOf({.sharding_strategy = ShardingStrategy::kHybridShard, .no_sync = false});
  job.nodes = 2;
  job.gpus_per_node = 4;
  job.batch.gradient_accumulation_steps = 2;
  const StepRun run = RunJob(job, ThreeLayers());
  std::vector<std::int64_t> begins;
  for (const auto& [label, start] : run.starts) {
    if (label == "all_gather root") begins.push_back(start);
  }
  EXPECT_THAT(begins, ElementsAre(0, 80 + 4 * 30));
}

// PyTorch's rule: doubled while it divides the ranks and is below what is left.
TEST(Fsdp1, GradientsAreDividedInTwoPlaces) {
  EXPECT_EQ(PreDivideFactor(1), 1);
  EXPECT_EQ(PreDivideFactor(2), 2);
  EXPECT_EQ(PreDivideFactor(4), 2);
  EXPECT_EQ(PreDivideFactor(6), 4);
  EXPECT_EQ(PreDivideFactor(8), 4);
  EXPECT_EQ(PreDivideFactor(64), 8);
  const auto divisions = [](std::int64_t ranks) {
    JobSpec job = JobOf();
    job.gpus_per_node = ranks;
    const StepRun run = RunJob(job, ThreeLayers());
    const std::int64_t behind = run.Count("divide shard");
    return std::pair(run.Count("divide") - behind, behind);
  };
  EXPECT_EQ(divisions(2), std::pair(std::int64_t{4}, std::int64_t{0}));
  EXPECT_EQ(divisions(8), std::pair(std::int64_t{4}, std::int64_t{4}));
}

// Before each gather of forward all ranks compare what they are about to gather, and the host reads
// the answer: nothing can be issued ahead. (The comparison itself takes no time here.)
TEST(Fsdp1, TheFirstIterationChecksTheOrder) {
  Durations durations;
  durations.free = {"divide", "check order"};
  JobSpec job = JobOf({.forward_prefetch = true, .iteration = TrainingIteration::kFirst});
  const StepRun run = RunJob(job, ThreeLayers(), durations);
  EXPECT_EQ(run.Count("check order"), 4);
  // Root 0-6, embedding 6-8, then gathers of 6 and layers of 10 in turn.
  EXPECT_EQ(run.Start("layers.0.op.forward"), 8 + 6);
  EXPECT_EQ(run.Start("layers.1.op.forward"), 24 + 6);
  EXPECT_EQ(run.Start("layers.2.op.forward"), 40 + 6);
  EXPECT_EQ(run.Start("head.op.forward"), 56);
  // Backward knows the order from the forward before it.
  EXPECT_EQ(run.Start("layers.1.op.wgrad"), run.Start("layers.2.op.wgrad") + 20);
}

// NO_SHARD in another type: every pass casts the whole parameter.
TEST(Fsdp1, NoShardCastsInEveryPass) {
  const StepRun run =
      RunJob(JobOf({.sharding_strategy = ShardingStrategy::kNoShard, .param_dtype = DType::kBf16}),
             ThreeLayers());
  EXPECT_EQ(run.Count("cast shard"), 2 * 4);
  EXPECT_EQ(run.Count("all_gather"), 0);
}

// With no_sync every micro-step gathers twice and only the last one reduces; without, each reduces.
TEST(Fsdp1, AccumulationReducesAsAsked) {
  JobSpec job = JobOf();
  job.batch.gradient_accumulation_steps = 3;
  const StepRun run = RunJob(job, ThreeLayers());
  // The root stays gathered from its first forward until it is freed after each backward.
  EXPECT_EQ(run.Count("all_gather"), 3 * (2 * 3 + 1));
  EXPECT_EQ(run.Count("reduce_scatter"), 4);
  job.plan.fsdp1.no_sync = false;
  EXPECT_EQ(RunJob(job, ThreeLayers()).Count("reduce_scatter"), 3 * 4);
}

// Units of a gather output that are there at once, at most. The host allocates outputs as it issues
// gathers: without the limiter, with a host that is always ahead, all of a step at its begin. With
// it, at most two units are freed but not reached by compute, and one is gathered.
std::int64_t MostUnits(const JobSpec& job, const Workload& workload) {
  const StepRun run = RunJob(job, workload);
  return MemoryOf(run).most.at("unsharded_parameters") / (kElements * 4);
}

TEST(Fsdp1, TheLimiterBoundsWhatIsGathered) {
  const Workload five = WorkloadOf({{"layers.0", 20, 40},
                                    {"layers.1", 20, 40},
                                    {"layers.2", 20, 40},
                                    {"layers.3", 20, 40},
                                    {"layers.4", 20, 40}});
  EXPECT_EQ(MostUnits(JobOf({.limit_all_gathers = false}), five), 2 * 5);
  EXPECT_EQ(MostUnits(JobOf({.limit_all_gathers = true}), five), 3);
  // A root of two units of size stays gathered through both passes.
  EXPECT_EQ(MostUnits(JobOf({.limit_all_gathers = false}), ThreeLayers()), 2 + 2 * 3);
  EXPECT_EQ(MostUnits(JobOf({.limit_all_gathers = true}), ThreeLayers()), 2 + 3);
}

TEST(Fsdp1, MemoryReturnsToTheShards) {
  for (const int microsteps : {1, 3}) {
    for (const bool no_sync : {true, false}) {
      JobSpec job = JobOf({.no_sync = no_sync});
      job.batch.gradient_accumulation_steps = microsteps;
      ExpectMemoryReturns(RunJob(job, ThreeLayers()));
    }
  }
}

}  // namespace
}  // namespace stepsim
