// When do the tensors of a step come and go? Bytes follow from shapes and types; the moments from
// what PyTorch, DDP and Megatron do (models/README.md, "Memory").
#include "models/parallel/step_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/parallel/build_step.h"
#include "sim/engine/simulate.h"
#include "sim/metrics/memory_profile.h"
#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using testing_sharded::JobWith;
using testing_sharded::RunJob;
using testing_sharded::StepRun;
using testing_sharded::ThreeLayers;

constexpr std::int64_t kTensor = 4 * testing_sharded::kElements;  // fp32

// Bytes of a category when a task begins, after what it takes itself.
std::int64_t At(const StepRun& run, const std::string& task, const std::string& category) {
  const auto& names = run.graph.memory_categories();
  const auto found = std::find(names.begin(), names.end(), category);
  if (found == names.end()) return 0;
  SimTime begin{};
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (run.graph.label(t).name == task) begin = run.timeline.start[t];
  }
  std::int64_t bytes = 0;
  MemoryReplay(run.graph, run.timeline).Visit(RankId{0}, [&](const MemoryMoment& moment) {
    if (moment.time <= begin)
      bytes = moment.now[static_cast<std::size_t>(found - names.begin())].value;
  });
  return bytes;
}

// zero_grad(set_to_none): one gradient after the other in backward, none in forward.
TEST(StepMemory, GradientsLiveFromBackwardToTheOptimizer) {
  JobSpec job = JobWith("none");
  job.gpus_per_node = 1;
  const StepRun run = RunJob(job, ThreeLayers());
  EXPECT_EQ(At(run, "head.op.forward", "gradients"), 0);
  EXPECT_EQ(At(run, "head.op.wgrad", "gradients"), kTensor);
  EXPECT_EQ(At(run, "layers.0.op.wgrad", "gradients"), 4 * kTensor);
  EXPECT_EQ(At(run, "optimizer", "gradients"), 5 * kTensor);
  testing_sharded::ExpectMemoryReturns(run);
}

// The second micro-step makes a gradient of its own and adds it to the first's.
TEST(StepMemory, AccumulationNeedsASecondTensor) {
  JobSpec job = JobWith("none");
  job.gpus_per_node = 1;
  job.batch.gradient_accumulation_steps = 2;
  const StepRun run = RunJob(job, ThreeLayers());
  EXPECT_EQ(At(run, "layers.1.op.wgrad", "gradients"), 6 * kTensor);  // of the last micro-step
  EXPECT_EQ(At(run, "optimizer", "gradients"), 5 * kTensor);
  testing_sharded::ExpectMemoryReturns(run);
}

// Buckets stay; with views they are the gradients, and a new one lives until it has been copied.
TEST(StepMemory, DdpBucketsAndViews) {
  JobSpec job = JobWith("ddp");
  const StepRun copies = RunJob(job, ThreeLayers());
  EXPECT_EQ(At(copies, "head.op.forward", "buckets"), 5 * kTensor);
  EXPECT_EQ(At(copies, "optimizer", "gradients"), 5 * kTensor);
  job.plan.ddp.gradient_as_bucket_view = true;
  const StepRun views = RunJob(job, ThreeLayers());
  EXPECT_EQ(At(views, "head.op.forward", "buckets"), 0);
  EXPECT_EQ(At(views, "head.op.forward", "gradients"), 5 * kTensor);
  EXPECT_EQ(At(views, "layers.1.op.wgrad", "gradients"), 6 * kTensor);
  EXPECT_EQ(At(views, "optimizer", "gradients"), 5 * kTensor);
  testing_sharded::ExpectMemoryReturns(copies);
  testing_sharded::ExpectMemoryReturns(views);
}

// Main gradients are buffers that live on.
TEST(StepMemory, MegatronsMainGradientsStay) {
  const StepRun run = RunJob(JobWith("megatron"), ThreeLayers());
  EXPECT_EQ(At(run, "embedding.op.forward", "gradients"), 5 * kTensor);
  EXPECT_EQ(At(run, "optimizer", "gradients"), 5 * kTensor);
}

// An eighth of each gradient is kept, from its reduction on.
TEST(StepMemory, FsdpKeepsShards) {
  const StepRun run = RunJob(JobWith("fsdp2"), ThreeLayers());
  EXPECT_EQ(At(run, "head.op.forward", "gradients"), 0);
  EXPECT_EQ(At(run, "optimizer", "gradients"), 5 * kTensor / 8);
  testing_sharded::ExpectMemoryReturns(run);
}

// foreach AdamW: one list as large as the parameters, while it runs.
TEST(StepMemory, TheOptimizersList) {
  JobSpec job = JobWith("none");
  job.gpus_per_node = 1;
  job.optimizer = OptimizerKind::kAdamW;
  const StepRun run = RunJob(job, ThreeLayers());
  EXPECT_EQ(At(run, "optimizer", "workspace") - At(run, "head.op.wgrad", "workspace"), 5 * kTensor);
}

// CUDA's context, and NCCL's buffers for each group that is used: two with HSDP.
TEST(StepMemory, ContextAndCommunicators) {
  const auto context = [](const JobSpec& job) {
    return At(RunJob(job, ThreeLayers()), "head.op.forward", "context") >> 20;
  };
  JobSpec job = JobWith("none");
  job.gpus_per_node = 1;
  EXPECT_EQ(context(job), 512);
  EXPECT_EQ(context(JobWith("ddp")), 1024);
  job = JobWith("fsdp2");
  job.plan.fsdp2.shard_size = 4;
  EXPECT_EQ(context(job), 512 + 2 * 512);
  job.memory.context = Bytes{0};
  job.memory.communicator = Bytes{100 << 20};
  EXPECT_EQ(context(job), 200);
}

// A checkpoint's rerun stands in backward, right before the backward that needs it, and what it
// makes is there with it.
TEST(StepMemory, RerunsMakeTensorsAnew) {
  Workload workload = ThreeLayers();
  Operator& op = workload.units[2].operators.front();  // layers.1
  op.saved = Bytes{100};
  op.dropped = Bytes{90};
  workload.reruns = {{{2, 0}, {{{2, 0}, Bytes{90}}}}};
  JobSpec job = JobWith("none");
  job.gpus_per_node = 1;
  const StepRun run = RunJob(job, workload);
  EXPECT_EQ(At(run, "head.op.forward", "activations"), 10);
  EXPECT_EQ(At(run, "layers.1.op.recompute", "activations"), 100);
  EXPECT_EQ(At(run, "layers.0.op.wgrad", "activations"), 0);
  EXPECT_EQ(run.Start("layers.1.op.wgrad"), run.Start("layers.1.op.recompute") + 10);
  for (const TaskId t : AllIds<TaskId>(run.graph.task_count())) {
    if (run.graph.label(t).name != "layers.1.op.recompute") continue;
    EXPECT_EQ(run.graph.label(t).phase, Phase::kBackward);
  }
}

}  // namespace
}  // namespace stepsim
