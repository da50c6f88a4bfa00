// FSDP2's steps, built by the strategy and run by the engine, against the start times of the
// worked schedules of tests/data/schedules.vec and the rules of models/README.md, "FSDP2".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;
using ::testing::ElementsAre;

JobSpec JobOf(Fsdp2Plan plan = {}) {
  JobSpec job = JobWith("fsdp2");
  job.plan.fsdp2 = std::move(plan);
  return job;
}

TEST(Fsdp2, DefaultMatchesTheSpecification) {
  const StepRun run = RunJob(JobOf(), ThreeLayers());
  ExpectLineByLine(run, Example("fsdp2-default"));
}

// Backward alone: what comes before takes no time. (Types and optimizer are such that no two kinds
// of kernel are equal, which would cost the same.)
TEST(Fsdp2, HybridTailMatchesTheSpecification) {
  Durations durations;
  durations.free = {"copy_in", "all_gather", "copy_out", "layers.0.op.forward",
                    "layers.1.op.forward"};
  JobSpec job = JobOf({.param_dtype = DType::kBf16, .reduce_dtype = DType::kFp32, .shard_size = 4});
  job.optimizer = OptimizerKind::kAdamW;
  const Workload two = WorkloadOf({{"layers.0", 0, 20}, {"layers.1", 0, 20}});
  ExpectLineByLine(RunJob(job, two, durations), Example("fsdp2-hsdp-tail"), durations);
}

// Section 9: gathers twice and reduces once, the root only once because it stays gathered.
TEST(Fsdp2, GathersTwiceAndReducesOnce) {
  const StepRun run = RunJob(JobOf(), ThreeLayers());
  EXPECT_EQ(run.Count("all_gather"), 2 * 3 + 1);
  EXPECT_EQ(run.Count("reduce_scatter"), 4);
  const StepRun kept = RunJob(JobOf({.reshard_after_forward = "false"}), ThreeLayers());
  EXPECT_EQ(kept.Count("all_gather"), 4);
  const StepRun freed = RunJob(JobOf({.reshard_after_forward = "true"}), ThreeLayers());
  EXPECT_EQ(freed.Count("all_gather"), 2 * 4);
}

// m micro-steps that reduce: m times the traffic. Without gradient sync one set of reduce_scatters,
// in the last micro-step.
TEST(Fsdp2, AccumulationReducesAsAsked) {
  JobSpec job = JobOf();
  job.batch.gradient_accumulation_steps = 3;
  EXPECT_EQ(RunJob(job, ThreeLayers()).Count("reduce_scatter"), 3 * 4);
  job.plan.fsdp2.requires_gradient_sync = false;
  const StepRun run = RunJob(job, ThreeLayers());
  EXPECT_EQ(run.Count("reduce_scatter"), 4);
  EXPECT_EQ(run.Count("all_gather"), 3 * (2 * 3 + 1));
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (run.graph.label(t).name.rfind("reduce_scatter", 0) != 0) continue;
    EXPECT_EQ(run.graph.position(t).microstep, 2);
  }
}

// The all_reduce over the copies runs on a stream of its own: compute waits for the reduce_scatter
// of the group before, not for its all_reduce (fsdp2-hsdp-tail). Two groups of 4 of 8 ranks.
TEST(Fsdp2, HybridShardsSumTheCopiesBehindTheReduceScatter) {
  const StepRun run = RunJob(JobOf({.shard_size = 4}), ThreeLayers());
  EXPECT_EQ(run.Count("all_reduce"), 4);
  // i2 follows r3 of fsdp2-default: the same times up to the last reduce_scatter.
  EXPECT_EQ(run.Start("pack gradients layers.1"), 101);
  EXPECT_EQ(run.Start("reduce_scatter root"), 131);
  // All_reduces of 30 one after another from 80 + 6: 86, 116, 146, 176; then the optimizer.
  EXPECT_EQ(run.Start("all_reduce layers.2"), 86);
  EXPECT_EQ(run.Start("optimizer"), 206);
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work == nullptr) continue;
    const auto& ranks = run.graph.group(work->group).ranks;
    if (work->op == CollectiveOp::kAllReduce) {
      EXPECT_THAT(ranks, ElementsAre(0, 4));
      EXPECT_EQ(work->bytes.value,
                kElements * 4 / 4 * (run.graph.label(t).name == "all_reduce root" ? 2 : 1));
    } else {
      EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
    }
  }
}

// Section 3.3: at the end of backward compute waits for every reduction, and the next forward's
// gathers wait for compute. So the second micro-step begins behind the first one's last all_reduce,
// which ends at 206 (above).
TEST(Fsdp2, TheNextMicrostepGathersBehindTheReductions) {
  JobSpec job = JobOf({.shard_size = 4});
  job.batch.gradient_accumulation_steps = 2;
  const StepRun run = RunJob(job, ThreeLayers());
  std::vector<std::int64_t> begins;
  for (const auto& [label, start] : run.starts) {
    if (label == "copy_in root") begins.push_back(start);
  }
  EXPECT_THAT(begins, ElementsAre(0, 206));
}

// Bytes on the wire: the gathered output in the parameters' type, the whole gradient in the type of
// the reduction.
TEST(Fsdp2, TypesOnTheWire) {
  const StepRun run =
      RunJob(JobOf({.param_dtype = DType::kBf16, .reduce_dtype = DType::kFp32}), ThreeLayers());
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work == nullptr || run.graph.label(t).name.find("root") != std::string::npos) continue;
    EXPECT_EQ(work->bytes.value, kElements * (work->op == CollectiveOp::kAllGather ? 2 : 4));
  }
}

// Of 8 ranks 4 keep a copy between forward and backward: rank 0 gathers it from 0 to 3.
TEST(Fsdp2, IntegerReshardGathersOverFewRanks) {
  const StepRun run = RunJob(JobOf({.reshard_after_forward = "4"}), ThreeLayers());
  int over_all = 0, over_few = 0;
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&run.graph.work(t));
    if (work == nullptr || work->op != CollectiveOp::kAllGather) continue;
    const auto& ranks = run.graph.group(work->group).ranks;
    const bool is_backward = run.graph.label(t).phase == Phase::kBackward;
    if (is_backward) {
      EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
    } else {
      EXPECT_EQ(ranks.size(), 8u);
    }
    ++(is_backward ? over_few : over_all);
  }
  EXPECT_EQ(over_all, 4);
  EXPECT_EQ(over_few, 4);
  EXPECT_EQ(run.Count("reshard"), 4);
}

// fp16 sums are divided before, by a power of two near the root of the ranks, and behind; the other
// types are averaged on the way. A factor of 1 divides nothing.
TEST(Fsdp2, Fp16SumsAreDividedByKernels) {
  const auto divisions = [](Fsdp2Plan plan) {
    const StepRun run = RunJob(JobOf(std::move(plan)), ThreeLayers());
    return std::pair(run.Count("divide"), run.Count("finish"));
  };
  EXPECT_EQ(divisions({}), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(divisions({.reduce_dtype = DType::kBf16}), std::pair(std::int64_t{0}, std::int64_t{4}));
  EXPECT_EQ(divisions({.reduce_dtype = DType::kFp16}), std::pair(std::int64_t{4}, std::int64_t{4}));
  EXPECT_EQ(divisions({.reduce_dtype = DType::kFp16, .gradient_divide_factor = 1}),
            std::pair(std::int64_t{0}, std::int64_t{4}));  // the cast is left
}

// A first module whose inputs need no gradient has no hook: its reduction comes in the final
// callback, behind the root's.
TEST(Fsdp2, TheFirstModuleIsReducedLast) {
  const StepRun run =
      RunJob(JobOf({.wrap = WrapPolicy::kCustom, .wrap_modules = {"embedding", "layers.*"}}),
             ThreeLayers());
  std::vector<std::string> order;
  for (const auto& [label, start] : run.starts) {
    if (label.rfind("reduce_scatter ", 0) == 0) order.push_back(label.substr(15));
  }
  EXPECT_THAT(order, ElementsAre("layers.2", "layers.1", "layers.0", "root", "embedding"));
}

// Without prefetch a gather queues behind the reduce_scatter of the group before, and both are
// exposed: 6 + 6 for each of layers.1 and layers.0. On communicators of their own the gather starts
// as soon as its buffer is free, during the backward before it.
TEST(Fsdp2, ASeparateGroupLetsGathersPass) {
  const StepRun shared = RunJob(JobOf({.backward_prefetch = 0}), ThreeLayers());
  const StepRun apart =
      RunJob(JobOf({.backward_prefetch = 0, .separate_reduce_group = true}), ThreeLayers());
  EXPECT_EQ(shared.makespan - apart.makespan, 2 * (6 + 6));
}

// Everything that is taken is given back.
TEST(Fsdp2, MemoryReturnsToTheShards) {
  for (const int microsteps : {1, 3}) {
    for (const bool sync : {true, false}) {
      JobSpec job = JobOf({.requires_gradient_sync = sync});
      job.batch.gradient_accumulation_steps = microsteps;
      ExpectMemoryReturns(RunJob(job, ThreeLayers()));
    }
  }
}

}  // namespace
}  // namespace stepsim
