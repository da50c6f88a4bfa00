#include "models/workload/kernel_work.h"

#include <gtest/gtest.h>

#include "sim/base/check.h"

namespace stepsim {
namespace {

TEST(GemmWork, CountsTwoFlopsPerMultiplyAddAndEveryMatrixOnce) {
  const ComputeWork work = GemmWork(DType::kBf16, 2, 3, 5);
  EXPECT_EQ(work.compute_class, ComputeClass::kGemm);
  EXPECT_EQ(work.flops, Flops{2 * 2 * 3 * 5});
  EXPECT_EQ(work.bytes, Bytes{2 * (2 * 5 + 5 * 3 + 2 * 3)});  // A, B, C in 2 bytes
}

TEST(GemmWork, WritesItsResultInItsOwnType) {
  const ComputeWork work = GemmWork(DType::kFp8, DType::kBf16, {2, 3, 5}, Pass::kForward);
  EXPECT_EQ(work.dtype, DType::kFp8);
  EXPECT_EQ(work.bytes, Bytes{1 * (2 * 5 + 5 * 3) + 2 * (2 * 3)});
}

// Experts: four products of one shape, weights of their own.
TEST(GemmWork, CountsEveryGroup) {
  const ComputeWork one = GemmWork(DType::kBf16, 2, 3, 5);
  const ComputeWork work = GemmWork(DType::kBf16, DType::kBf16, {2, 3, 5, 4}, Pass::kForward);
  EXPECT_EQ(work.batch, 4);
  EXPECT_EQ(work.flops, one.flops * 4);
  EXPECT_EQ(work.bytes, one.bytes * 4);
}

TEST(GemmWork, RefusesAnEmptyShape) {
  EXPECT_THROW(GemmWork(DType::kBf16, 0, 3, 5), InternalError);
}

// Counts the multiply-adds of Q K^T and P V one by one.
double CountedForwardFlops(const AttentionShape& shape) {
  double multiply_adds = 0;
  for (std::int64_t query = 0; query < shape.sequence; ++query) {
    for (std::int64_t key = 0; key < shape.sequence; ++key) {
      if (!shape.causal || key <= query) multiply_adds += 2 * static_cast<double>(shape.head_dim);
    }
  }
  return 2 * multiply_adds * static_cast<double>(shape.batch * shape.heads);
}

TEST(AttentionWork, CountsExactlyTheVisiblePairs) {
  for (const bool causal : {true, false}) {
    const AttentionShape shape{2, 7, 4, 2, 8, causal};
    EXPECT_EQ(AttentionForwardWork(shape, DType::kBf16).flops.value, CountedForwardFlops(shape));
  }
}

TEST(AttentionWork, BackwardRunsFiveProductsAgainstTwo) {
  const AttentionShape shape{2, 7, 4, 2, 8, true};
  EXPECT_EQ(AttentionBackwardWork(shape, DType::kBf16).flops.value,
            CountedForwardFlops(shape) / 2 * 5);
}

TEST(AttentionWork, NeverMovesTheScores) {
  const AttentionShape shape{1, 4096, 32, 8, 128, true};
  const std::int64_t query = 2 * 4096 * 32 * 128;  // also the output's size, in bytes
  const std::int64_t key = 2 * 4096 * 8 * 128;     // also the value's
  EXPECT_EQ(AttentionForwardWork(shape, DType::kBf16).bytes, Bytes{query + 2 * key + query});
  // q, k, v, o, do in; dq, dk, dv out
  EXPECT_EQ(AttentionBackwardWork(shape, DType::kBf16).bytes,
            Bytes{(query + 2 * key + query + query) + (query + 2 * key)});
}

TEST(MemoryWork, MovesTheTensorOncePerPass) {
  const ComputeWork work = MemoryWork(DType::kBf16, 3, 1000);
  EXPECT_EQ(work.compute_class, ComputeClass::kMemory);
  EXPECT_EQ(work.bytes, Bytes{3 * 2 * 1000});
  EXPECT_EQ(work.flops, Flops{0});
}

TEST(CopyWork, ReadsAndWrites) {
  EXPECT_EQ(CopyWork(Bytes{100}, Bytes{50}).bytes, Bytes{150});
  EXPECT_EQ(ZeroWork(Bytes{50}).bytes, Bytes{50});
  EXPECT_EQ(CastWork(DType::kFp32, DType::kBf16, 10).bytes, Bytes{40 + 20});
  EXPECT_EQ(AccumulateWork(DType::kFp32, 10).bytes, Bytes{3 * 40});
}

// One price for one amount of traffic: memoised costs rely on it.
TEST(CopyWork, EqualTrafficIsEqualWork) {
  EXPECT_EQ(CastWork(DType::kFp32, DType::kBf16, 10), CopyWork(Bytes{40}, Bytes{20}));
}

}  // namespace
}  // namespace stepsim
