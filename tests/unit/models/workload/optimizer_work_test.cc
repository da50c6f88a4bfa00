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
  const auto works = OptimizerWork(OptimizerKind::kAdamW, workload);
  ASSERT_THAT(works, SizeIs(1));
  EXPECT_EQ(works[0].bytes, Bytes{28 * 1000});  // (p, g, m, v) in, (p, m, v) out, 4 bytes each
  EXPECT_EQ(works[0].compute_class, ComputeClass::kMemory);
}

TEST(OptimizerWork, RunsOneKernelPerDtypeInOrderOfAppearance) {
  const auto works = OptimizerWork(OptimizerKind::kAdamW, Mixed());
  ASSERT_THAT(works, SizeIs(2));
  EXPECT_EQ(works[0].dtype, DType::kFp32);
  EXPECT_EQ(works[0].bytes, Bytes{7 * 4 * 101});
  EXPECT_EQ(works[1].dtype, DType::kBf16);
  EXPECT_EQ(works[1].bytes, Bytes{7 * 2 * 30});
}

TEST(OptimizerWork, SgdReadsTwoAndWritesOne) {
  EXPECT_EQ(OptimizerWork(OptimizerKind::kSgd, Mixed())[0].bytes, Bytes{3 * 4 * 101});
  EXPECT_EQ(OptimizerWork(OptimizerKind::kSgdMomentum, Mixed())[0].bytes, Bytes{5 * 4 * 101});
}

TEST(OptimizerWork, NoneDoesNothing) {
  EXPECT_THAT(OptimizerWork(OptimizerKind::kNone, Mixed()), IsEmpty());
  EXPECT_EQ(OptimizerStates(OptimizerKind::kNone), 0);
}

}  // namespace
}  // namespace stepsim
