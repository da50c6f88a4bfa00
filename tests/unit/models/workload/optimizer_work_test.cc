#include "models/workload/optimizer_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepsim {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Workload Mixed() {
  Workload workload;
  workload.parameters = {{"a", 100, DType::kFp32}, {"b", 30, DType::kBf16}, {"c", 1, DType::kFp32}};
  return workload;
}

TEST(OptimizerWork, AdamWMovesTwentyEightBytesPerFp32Parameter) {
  Workload workload;
  workload.parameters = {{"a", 1000, DType::kFp32}};
  const auto works = OptimizerWork(OptimizerKind::kAdamW, OptimizerImpl::kFused, workload);
  ASSERT_THAT(works, SizeIs(1));
  EXPECT_EQ(works[0].bytes, Bytes{28 * 1000});  // (p, g, m, v) in, (p, m, v) out, 4 bytes each
  EXPECT_EQ(works[0].kernels, 1);
  EXPECT_EQ(works[0].compute_class, ComputeClass::kMemory);
}

TEST(OptimizerWork, RunsOneKernelPerDtypeInOrderOfAppearance) {
  const auto works = OptimizerWork(OptimizerKind::kAdamW, OptimizerImpl::kFused, Mixed());
  ASSERT_THAT(works, SizeIs(2));
  EXPECT_EQ(works[0].dtype, DType::kFp32);
  EXPECT_EQ(works[0].bytes, Bytes{7 * 4 * 101});
  EXPECT_EQ(works[1].dtype, DType::kBf16);
  EXPECT_EQ(works[1].bytes, Bytes{7 * 2 * 30});
}

TEST(OptimizerWork, SgdReadsTwoAndWritesOne) {
  for (const OptimizerImpl impl : {OptimizerImpl::kFused, OptimizerImpl::kForeach}) {
    EXPECT_EQ(OptimizerWork(OptimizerKind::kSgd, impl, Mixed())[0].bytes, Bytes{3 * 4 * 101});
  }
  EXPECT_EQ(OptimizerWork(OptimizerKind::kSgdMomentum, OptimizerImpl::kFused, Mixed())[0].bytes,
            Bytes{5 * 4 * 101});
}

// Read and write, operator by operator of torch.optim's _multi_tensor_adamw: mul 2, lerp 3, mul 2,
// addcmul 3, sqrt 2, div 2, add 2, addcdiv 4. Eight launches for a few small tensors.
TEST(OptimizerWork, ForeachWritesEveryIntermediate) {
  const auto works = OptimizerWork(OptimizerKind::kAdamW, OptimizerImpl::kForeach, Mixed());
  EXPECT_EQ(works[0].bytes, Bytes{(2 + 3 + 2 + 3 + 2 + 2 + 2 + 4) * 4 * 101});
  EXPECT_EQ(works[0].kernels, 8);
  const auto momentum =
      OptimizerWork(OptimizerKind::kSgdMomentum, OptimizerImpl::kForeach, Mixed());
  EXPECT_EQ(momentum[0].bytes, Bytes{(2 + 3 + 3) * 4 * 101});
}

// A launch of multi_tensor_apply takes 320 blocks of 65536 elements: 1e9 / 20971520 = 47.7.
TEST(OptimizerWork, LargeTensorsTakeManyLaunches) {
  Workload workload;
  workload.parameters = {{"a", 1'000'000'000, DType::kFp32}};
  const auto launches = [&](OptimizerImpl impl) {
    return OptimizerWork(OptimizerKind::kAdamW, impl, workload)[0].kernels;
  };
  EXPECT_EQ(launches(OptimizerImpl::kFused), 48);
  EXPECT_EQ(launches(OptimizerImpl::kForeach), 8 * 48);
  EXPECT_EQ(launches(OptimizerImpl::kForLoop), 8);
}

TEST(OptimizerWork, NoneDoesNothing) {
  EXPECT_THAT(OptimizerWork(OptimizerKind::kNone, OptimizerImpl::kForeach, Mixed()), IsEmpty());
  EXPECT_EQ(OptimizerStates(OptimizerKind::kNone), 0);
}

}  // namespace
}  // namespace stepsim
