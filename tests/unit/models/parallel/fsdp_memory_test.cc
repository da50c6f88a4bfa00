// What an FSDP rank holds beside its shards at named moments of the worked schedules:
// models/README.md, "FSDP2" and "FSDP1". S is the size of a layer; the root's group holds two.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;

constexpr std::int64_t kSize = kElements * 4;
// The head's gradient waits for the rest of the root's group, to the end of backward.
constexpr std::int64_t kHead = 1;

JobSpec Fsdp2(Fsdp2Plan plan = {}, int microsteps = 1) {
  JobSpec job = JobWith("fsdp2");
  job.plan.fsdp2 = std::move(plan);
  job.batch.gradient_accumulation_steps = microsteps;
  return job;
}

JobSpec Fsdp1(Fsdp1Plan plan = {}) {
  JobSpec job = JobWith("fsdp1");
  job.plan.fsdp1 = std::move(plan);
  return job;
}

// In units of S.
class Held {
 public:
  explicit Held(const StepRun& run) : memory_(MemoryOf(run)) {}
  std::int64_t Parameters(std::int64_t time) const { return At(time, "unsharded_parameters"); }
  std::int64_t Buffers(std::int64_t time) const { return At(time, "gather_buffers"); }
  std::int64_t Gradients(std::int64_t time) const { return At(time, "unsharded_gradients"); }
  std::int64_t ReduceInputs(std::int64_t time) const { return At(time, "reduce_buffers"); }
  std::int64_t At(std::int64_t time, const std::string& category) const {
    return memory_.At(time, category) / kSize;
  }
  std::int64_t Bytes(std::int64_t time, const std::string& category) const {
    return memory_.At(time, category);
  }

 private:
  RunMemory memory_;
};

// Times of fsdp2-default. F_1 runs from 14 to 24, B_2 from 81 to 101.
TEST(Fsdp2Memory, TableOfTheSpecification) {
  const Held held(RunJob(Fsdp2(), ThreeLayers()));
  // Forward of 1: the root, S_1, and the outputs of the gathers of 2 and 3.
  EXPECT_EQ(held.Parameters(20), 2 + 1);
  EXPECT_EQ(held.Buffers(20), 2);
  EXPECT_EQ(held.Gradients(20) + held.ReduceInputs(20), 0);
  // Backward of 2: the root, S_2, the output of gather 1, the reduce_scatter input of 3 until
  // compute has waited for it, at 101. The gradient of 2 is there at 101 and packed by 102.
  EXPECT_EQ(held.Parameters(95), 2 + 1);
  EXPECT_EQ(held.Buffers(95), 1);
  EXPECT_EQ(held.ReduceInputs(95), 1);
  EXPECT_EQ(held.Gradients(95), kHead);
  EXPECT_EQ(held.Gradients(101), kHead + 1);
  EXPECT_EQ(held.ReduceInputs(101), 1);
  EXPECT_EQ(held.Gradients(102), kHead);
}

TEST(Fsdp2Memory, WithoutReshardAllStays) {
  const StepRun run = RunJob(Fsdp2({.reshard_after_forward = "false"}), ThreeLayers());
  const Held held(run);
  EXPECT_EQ(held.Parameters(run.Start("head.op.forward")), 5);
  EXPECT_EQ(held.Parameters(run.Start("layers.1.op.wgrad")), 2 + 2);  // layers.2 is freed
}

// k = 4 of 8: a quarter of each group, the root's included, from its forward to its backward.
TEST(Fsdp2Memory, IntegerReshardKeepsAPart) {
  const StepRun run = RunJob(Fsdp2({.reshard_after_forward = "4"}), ThreeLayers());
  const Held held(run);
  const std::int64_t forward = run.Start("layers.2.op.forward");
  EXPECT_EQ(held.Bytes(forward, "resharded_parameters"), 2 * kSize / 4);
  const std::int64_t root = run.Start("head.op.wgrad");  // gathered again: three layers are left
  EXPECT_EQ(held.Bytes(root, "resharded_parameters"), 3 * kSize / 4);
  EXPECT_EQ(held.Bytes(run.Start("optimizer"), "resharded_parameters"), 0);
}

// Gradients in fp32 beside bf16 parameters: those that wait for the last micro-step are kept in the
// reduction's type.
TEST(Fsdp2Memory, WaitingGradientsHaveTheReductionsType) {
  const StepRun run = RunJob(Fsdp2({.param_dtype = DType::kBf16,
                                    .reduce_dtype = DType::kFp32,
                                    .requires_gradient_sync = false},
                                   2),
                             ThreeLayers());
  std::int64_t optimizer = run.Start("optimizer");
  const Held held(run);
  std::int64_t second = 0;  // the second forward begins
  for (const auto& [label, start] : run.starts) {
    if (label == "embedding.op.forward") second = start;
  }
  EXPECT_EQ(held.Gradients(second), 5);
  EXPECT_EQ(held.Gradients(optimizer), 0);
}

// HSDP without all_reduce: the partial sums wait, one shard of each group.
TEST(Fsdp2Memory, PartialSumsWait) {
  const StepRun run =
      RunJob(Fsdp2({.shard_size = 4, .requires_all_reduce = false}, 2), ThreeLayers());
  std::int64_t second = 0;
  for (const auto& [label, start] : run.starts) {
    if (label == "embedding.op.forward") second = start;
  }
  EXPECT_EQ(Held(run).Bytes(second, "reduce_buffers"), 5 * kSize / 4);
}

// Times of fsdp1-backward-pre.
TEST(Fsdp1Memory, TableOfTheSpecification) {
  const Held held(RunJob(Fsdp1(), ThreeLayers()));
  // Forward of 1: the root, unit 1, and unit 2, whose gather the limiter let pass.
  EXPECT_EQ(held.Parameters(15), 2 + 1 + 1);
  // Forward of 2 (22 to 32): unit 1 is freed at 22, which lets the host gather 3.
  EXPECT_EQ(held.Parameters(25), 2 + 1 + 1);
  // Forward of 3 (32 to 42): free 2 was reached at 32: 3' and 2' are issued at once.
  EXPECT_EQ(held.Parameters(35), 2 + 1 + 2);
  // Backward of 2 (74 to 94): the root, 2, and the prefetched 1.
  EXPECT_EQ(held.Parameters(85), 2 + 1 + 1);
  // The gradient of 3 lives until RS_3 has ended, from 74 to 80.
  EXPECT_EQ(held.Gradients(78), kHead + 1);
  EXPECT_EQ(held.Gradients(85), kHead);
}

// Reductions that are slower than backward pile up whole gradients; nothing limits them.
TEST(Fsdp1Memory, SlowReductionsPileUpGradients) {
  Durations slow;
  slow.reduce_scatter = 100;
  const StepRun run = RunJob(Fsdp1({.separate_reduce_group = true}), ThreeLayers(), slow);
  // Gradients of 3, 2 and 1 wait when the embedding's is there.
  EXPECT_EQ(Held(run).Gradients(run.Start("embedding.op.wgrad")), 3 + kHead);
}

// Section 2.3: on the reductions' stream the gradient is cast to the type of the reduction first.
// So what the reduce_scatter reads, alive until it ends, is in fp32 here, twice what backward made.
TEST(Fsdp1Memory, ReductionsReadGradientsOfTheirOwnType) {
  const StepRun run =
      RunJob(Fsdp1({.param_dtype = DType::kBf16, .reduce_dtype = DType::kFp32}), ThreeLayers());
  const Held held(run);
  const std::int64_t backward = run.Start("layers.2.op.wgrad");
  const std::int64_t reduces = run.Start("reduce_scatter layers.2");
  EXPECT_EQ(held.Bytes(backward + 19, "reduce_buffers"), 0);
  EXPECT_EQ(held.Bytes(reduces + 5, "reduce_buffers"), kSize);
  EXPECT_EQ(held.Bytes(reduces + 5, "unsharded_gradients"), kHead * kElements * 2);
  EXPECT_EQ(held.Bytes(reduces + 6, "reduce_buffers"), 0);
  ExpectMemoryReturns(run);
}

// With a host thread the output is taken when the gather is launched.
TEST(Fsdp1Memory, OutputsAreTakenAtTheLaunch) {
  const Workload workload = ThreeLayers();
  const JobSpec job = Fsdp1({.limit_all_gathers = false});
  TaskGraph graph = BuildStep(job, workload, HostThread::kLaunches).graph;
  int outputs = 0;
  for (const MemoryEvent& event : graph.memory_events()) {
    if (graph.memory_categories()[event.category] != "unsharded_parameters") continue;
    if (event.delta.value < 0) continue;
    ++outputs;
    EXPECT_EQ(graph.label(event.task).name, "launch");
    EXPECT_FALSE(event.at_end);
  }
  EXPECT_EQ(outputs, 2 * (2 * 3 + 1));  // two steps
}

}  // namespace
}  // namespace stepsim
