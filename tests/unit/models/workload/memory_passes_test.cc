#include "models/workload/memory_passes.h"

#include <gtest/gtest.h>

namespace stepsim {
namespace {

constexpr TrafficTypes kAutocast{DType::kBf16, DType::kFp32};
constexpr TrafficTypes kPure{DType::kBf16, DType::kBf16};
constexpr TrafficTypes kSingle{DType::kFp32, DType::kFp32};

TEST(Traffic, CountsEachMoveInItsType) {
  const Traffic traffic{.activation = 3, .stream = 2, .wide = 1, .mask = 1, .kernels = 2};
  EXPECT_EQ(TrafficBytes(traffic, kAutocast, 10), Bytes{10 * (3 * 2 + 2 * 4 + 4 + 1)});
  EXPECT_EQ(TrafficBytes(traffic, kPure, 10), Bytes{10 * (3 * 2 + 2 * 2 + 4 + 1)});
  EXPECT_EQ(TrafficWork(traffic, kPure, 10).kernels, 2);
  EXPECT_EQ(TrafficWork(traffic, kPure, 10).compute_class, ComputeClass::kMemory);
}

TEST(Traffic, CastsOnlyBetweenDifferentTypes) {
  const Traffic traffic{.casts = 2, .kernels = 0};
  EXPECT_EQ(TrafficBytes(traffic, kAutocast, 10), Bytes{10 * 2 * (2 + 4)});
  EXPECT_EQ(TrafficWork(traffic, kAutocast, 10).kernels, 2);
  EXPECT_EQ(TrafficWork(traffic, kPure, 10).kernels, 0);
  EXPECT_EQ(TrafficBytes(traffic, kSingle, 10), Bytes{0});
}

TEST(Traffic, WidensOnlyANarrowStream) {
  const Traffic traffic{.widens = 1};
  EXPECT_EQ(TrafficBytes(traffic, kPure, 10), Bytes{10 * (2 + 4)});
  EXPECT_EQ(TrafficBytes(traffic, kAutocast, 10), Bytes{0});
}

// LlamaRMSNorm of Hugging Face on bf16, tensor by tensor: to fp32 2 + 4, pow 4 + 4, mean 4,
// x * rsqrt 4 + 4, back 4 + 2, weight * 2 + 2; six launches and two casts.
TEST(MemoryPasses, RmsNormWrittenOut) {
  const ComputeWork work = TrafficWork(PassesOf(KernelMode::kEager).rms_norm, kPure, 100);
  EXPECT_EQ(work.bytes, Bytes{100 * (6 + 8 + 4 + 8 + 6 + 4)});
  EXPECT_EQ(work.kernels, 8);
  const ComputeWork fused = TrafficWork(PassesOf(KernelMode::kFused).rms_norm, kPure, 100);
  EXPECT_EQ(fused.bytes, Bytes{100 * (2 + 2)});
  EXPECT_EQ(fused.kernels, 1);
}

// Cross entropy of bf16 logits: widened 2 + 4, log-softmax 4 + 4; fused it reads them twice.
TEST(MemoryPasses, LossOfNarrowLogits) {
  for (const TrafficTypes& types : {kPure, kAutocast}) {
    EXPECT_EQ(TrafficBytes(PassesOf(KernelMode::kEager).loss, types, 100), Bytes{100 * 14});
    EXPECT_EQ(TrafficBytes(PassesOf(KernelMode::kEager).loss_grad, types, 100), Bytes{100 * 22});
    EXPECT_EQ(TrafficBytes(PassesOf(KernelMode::kFused).loss, types, 100), Bytes{100 * 4});
  }
  EXPECT_EQ(TrafficBytes(PassesOf(KernelMode::kEager).loss, kSingle, 100), Bytes{100 * 8});
}

// silu(gate) * up: two kernels in eager, one elsewhere.
TEST(MemoryPasses, SwiGlu) {
  EXPECT_EQ(TrafficBytes(PassesOf(KernelMode::kEager).gated_activation, kPure, 10),
            Bytes{10 * 2 * (2 + 3)});
  EXPECT_EQ(TrafficBytes(PassesOf(KernelMode::kCompiled).gated_activation, kPure, 10),
            Bytes{10 * 2 * 3});
}

}  // namespace
}  // namespace stepsim
