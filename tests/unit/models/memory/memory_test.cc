#include "models/memory/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/spec/sharding.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Workload OfParameters(std::int64_t count, DType dtype) {
  Workload workload;
  workload.parameters = {{"w", count, dtype}};
  workload.buffers = Bytes{12};
  return workload;
}

std::map<std::string, std::int64_t> StaticOf(const JobSpec& job, const Workload& workload) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& [category, size] : StaticMemory(job, workload)) bytes[category] = size.value;
  return bytes;
}

JobSpec JobWith(const std::string& strategy) {
  JobSpec job;
  job.plan.strategy = strategy;
  job.gpus_per_node = 8;
  return job;
}

// fp32 DDP with Adam: 4 + 4 + 8 = 16 bytes per parameter, and 4 of buckets without the view. The
// gradients beside the buckets come with backward.
TEST(StaticMemory, DdpKeepsBucketsBesideTheGradients) {
  EXPECT_THAT(StaticMemory(JobWith("ddp"), OfParameters(1000, DType::kFp32)),
              ElementsAre(Pair("parameters", Bytes{4000}), Pair("gradients", Bytes{0}),
                          Pair("buckets", Bytes{4000}), Pair("optimizer_states", Bytes{8000}),
                          Pair("buffers", Bytes{12})));
  const GradientLife life = GradientLifeOf(JobWith("ddp"));
  EXPECT_FALSE(life.is_static);
  EXPECT_FALSE(life.is_copied);
}

// The buckets are the gradients; a new gradient lives until it has been copied into its slot.
TEST(StaticMemory, BucketViewsAreTheGradients) {
  JobSpec job = JobWith("ddp");
  job.plan.ddp.gradient_as_bucket_view = true;
  const auto bytes = StaticOf(job, OfParameters(1000, DType::kFp32));
  EXPECT_EQ(bytes.at("gradients"), 4000);
  EXPECT_EQ(bytes.at("buckets"), 0);
  EXPECT_TRUE(GradientLifeOf(job).is_copied);
}

TEST(StaticMemory, OneGpuWithoutDdpHasNoBuckets) {
  const auto bytes = StaticOf(JobWith("none"), OfParameters(1000, DType::kFp32));
  EXPECT_EQ(bytes.at("buckets"), 0);
  EXPECT_EQ(bytes.at("gradients"), 0);
}

// Plain PyTorch keeps the states in the parameters' type: no fp32 master copy.
TEST(StaticMemory, StatesFollowTheParametersType) {
  JobSpec job = JobWith("ddp");
  EXPECT_EQ(StaticOf(job, OfParameters(1000, DType::kBf16)).at("optimizer_states"), 4000);
  job.optimizer = OptimizerKind::kSgdMomentum;
  EXPECT_EQ(StaticOf(job, OfParameters(1000, DType::kBf16)).at("optimizer_states"), 2000);
}

// schedules.md, 9.3: Megatron bf16 with fp32 main gradients 2 + 4 + 12 = 18 bytes per parameter,
// with the distributed optimizer 6 + 12 / d.
TEST(StaticMemory, MegatronsEighteenBytes) {
  JobSpec job = JobWith("megatron");
  const Workload workload = OfParameters(8000, DType::kBf16);
  auto bytes = StaticOf(job, workload);
  EXPECT_EQ(bytes.at("parameters") + bytes.at("gradients") + bytes.at("optimizer_states"),
            18 * 8000);
  job.plan.megatron.use_distributed_optimizer = true;
  bytes = StaticOf(job, workload);
  EXPECT_EQ(bytes.at("parameters") + bytes.at("gradients") + bytes.at("optimizer_states"),
            6 * 8000 + 12 * 1000);
  EXPECT_TRUE(GradientLifeOf(job).is_static);
}

// ZeRO-1: 2 + 2 + 12/N; ZeRO-2: 2 + 14/N; ZeRO-3: 16/N. Stage 1's gradients come with backward.
TEST(StaticMemory, ZeroStages) {
  const Workload workload = OfParameters(8000, DType::kBf16);
  const std::int64_t expected[] = {2 * 8000 + 12 * 1000, 2 * 8000 + 14 * 1000, 16 * 1000};
  for (const int stage : {1, 2, 3}) {
    JobSpec job = JobWith("zero");
    job.plan.zero.stage = stage;
    const auto bytes = StaticOf(job, workload);
    EXPECT_EQ(bytes.at("parameters") + bytes.at("gradients") + bytes.at("optimizer_states"),
              expected[stage - 1])
        << stage;
    EXPECT_EQ(GradientLifeOf(job).is_static, stage > 1);
  }
}

// FSDP2 with fp32 shards: 4 + 8 over N for the whole step, 4 over N from backward on.
TEST(StaticMemory, FsdpShards) {
  JobSpec job = JobWith("fsdp2");
  const auto bytes = StaticOf(job, OfParameters(8000, DType::kBf16));
  EXPECT_EQ(bytes.at("parameters") + bytes.at("optimizer_states"), 12 * 1000);
  EXPECT_EQ(bytes.at("gradients"), 0);
  EXPECT_EQ(ShardingOf(job).gradient_shards, 8);
  job.batch.gradient_accumulation_steps = 4;
  EXPECT_EQ(GradientLifeOf(job).first_microstep, 0);
  job.plan.fsdp2.requires_gradient_sync = false;
  EXPECT_EQ(GradientLifeOf(job).first_microstep, 3);
}

// PyTorch's cuBLAS workspace: 32 MiB from Hopper on.
TEST(StaticMemory, ProductsHaveAWorkspace) {
  JobSpec job = JobWith("none");
  job.hardware.gpu.compute_capability = 8.0;
  EXPECT_EQ(ProductWorkspace(job), Bytes{8519680});  // as its allocator's snapshots show it
  job.hardware.gpu.compute_capability = 9.0;
  EXPECT_EQ(ProductWorkspace(job), Bytes{32 << 20});
}

// torch.optim's documentation: foreach takes about the size of the parameters more than one by one;
// fused takes nothing.
TEST(OptimizerWorkspace, ByImplementation) {
  JobSpec job = JobWith("ddp");
  Workload workload = OfParameters(1000, DType::kFp32);
  workload.parameters.push_back({"v", 500, DType::kFp32});
  EXPECT_EQ(OptimizerWorkspace(job, workload), Bytes{4 * 1500});
  job.optimizer_impl = OptimizerImpl::kForLoop;
  EXPECT_EQ(OptimizerWorkspace(job, workload), Bytes{2 * 4 * 1000});
  job.optimizer_impl = OptimizerImpl::kFused;
  EXPECT_EQ(OptimizerWorkspace(job, workload), Bytes{0});
  job.optimizer = OptimizerKind::kSgdMomentum;
  job.optimizer_impl = OptimizerImpl::kForeach;
  EXPECT_EQ(OptimizerWorkspace(job, workload), Bytes{0});
}

// Megatron's main gradients are fp32 by default; 16-bit ones are cast for the master's step.
TEST(OptimizerWorkspace, MasterGradients) {
  JobSpec job = JobWith("megatron");
  job.plan.megatron.use_distributed_optimizer = true;
  job.optimizer_impl = OptimizerImpl::kFused;
  const Workload workload = OfParameters(8000, DType::kBf16);
  EXPECT_EQ(OptimizerWorkspace(job, workload), Bytes{0});
  job.plan.megatron.grad_reduce_in_fp32 = false;
  EXPECT_EQ(OptimizerWorkspace(job, workload), Bytes{4 * 1000});
}

}  // namespace
}  // namespace stepsim
