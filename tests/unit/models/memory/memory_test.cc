#include "models/memory/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// fp32 DDP with Adam: 4 + 4 + 8 = 16 bytes per parameter, and 4 of buckets without the view.
TEST(StaticMemory, DdpKeepsBucketsBesideTheGradients) {
  JobSpec job;
  EXPECT_THAT(StaticMemory(job, OfParameters(1000, DType::kFp32)),
              ElementsAre(Pair("parameters", Bytes{4000}), Pair("gradients", Bytes{4000}),
                          Pair("buckets", Bytes{4000}), Pair("optimizer_states", Bytes{8000}),
                          Pair("buffers", Bytes{12})));
}

TEST(StaticMemory, BucketViewsSaveTheBuckets) {
  JobSpec job;
  job.plan.ddp.gradient_as_bucket_view = true;
  EXPECT_EQ(StaticMemory(job, OfParameters(1000, DType::kFp32))[2].second, Bytes{0});
}

TEST(StaticMemory, OneGpuWithoutDdpHasNoBuckets) {
  JobSpec job;
  job.plan.strategy = "none";
  EXPECT_EQ(StaticMemory(job, OfParameters(1000, DType::kFp32))[2].second, Bytes{0});
}

// Plain PyTorch keeps the states in the parameters' type: no fp32 master copy.
TEST(StaticMemory, StatesFollowTheParametersType) {
  JobSpec job;
  EXPECT_EQ(StaticMemory(job, OfParameters(1000, DType::kBf16))[3].second, Bytes{4000});
  job.optimizer = OptimizerKind::kSgdMomentum;
  EXPECT_EQ(StaticMemory(job, OfParameters(1000, DType::kBf16))[3].second, Bytes{2000});
}

}  // namespace
}  // namespace stepsim
