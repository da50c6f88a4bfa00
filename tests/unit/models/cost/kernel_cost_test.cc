#include "models/cost/kernel_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "models/cost/gemm_cost.h"
#include "models/workload/kernel_work.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// 100 SMs of 10 TFLOP/s each at full efficiency, memory that never matters, no launch.
GpuSpec Gpu(GemmCurve curve) {
  GpuSpec gpu;
  gpu.sms = 100;
  gpu.peak = {
      .fp32 = {100e12}, .tf32 = {500e12}, .bf16 = {1000e12}, .fp16 = {1000e12}, .fp8 = {2000e12}};
  gpu.hbm_bandwidth = {1e18};
  gpu.gemm = {std::move(curve)};
  return gpu;
}

// A static grid of one tile.
GemmCurve Grid() {
  GemmCurve curve;
  curve.tiles = {{128, 256, 1}};
  return curve;
}

double Seconds(const GpuSpec& gpu, std::int64_t m, std::int64_t n, std::int64_t k) {
  return PriceKernel(GemmWork(DType::kBf16, m, n, k), gpu).seconds;
}

// One block: 2 x 128 x 256 x 1000 FLOP at 10 TFLOP/s = 6.5536 us.
constexpr double kBlock = 2.0 * 128 * 256 * 1000 / 10e12;

TEST(GemmWaves, CountBlocksOverSms) {
  const GpuSpec gpu = Gpu(Grid());
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256, 1000), kBlock);
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256 * 100, 1000), kBlock);      // 100 blocks: one wave
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256 * 101, 1000), 2 * kBlock);  // the 101st: another
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128 * 2, 256 * 100, 1000), 2 * kBlock);
}

TEST(GemmWaves, PadTheEdges) {
  const GpuSpec gpu = Gpu(Grid());
  // 129 rows take two rows of tiles: 2 x 60 = 120 blocks. Turned, 256 x 128 would take 120 as well.
  EXPECT_EQ(PriceKernel(GemmWork(DType::kBf16, 129, 256 * 60, 1000), gpu).tiles, 120);
  EXPECT_DOUBLE_EQ(Seconds(gpu, 129, 256 * 60, 1000), 2 * kBlock);
}

// 132 SMs and 132 tiles are one wave: 12 x 11 tiles of 128 x 256.
TEST(GemmWaves, OneWaveOnH100) {
  GpuSpec gpu = Gpu(Grid());
  gpu.sms = 132;
  const ComputeWork work = GemmWork(DType::kBf16, 12 * 128, 11 * 256, 4096);
  const KernelCost cost = PriceKernel(work, gpu);
  EXPECT_EQ(cost.tiles, 132);
  EXPECT_DOUBLE_EQ(PriceKernel(work, gpu, 131).seconds, 2 * cost.seconds);
  EXPECT_DOUBLE_EQ(PriceKernel(work, gpu, 66).seconds, 2 * cost.seconds);
  EXPECT_DOUBLE_EQ(PriceKernel(work, gpu, 65).seconds, 3 * cost.seconds);
}

TEST(GemmWaves, TailIsTheShareInWholeWaves) {
  EXPECT_DOUBLE_EQ(Waves(2.5, 1), 3);
  EXPECT_DOUBLE_EQ(Waves(2.5, 0), 2.5);
  EXPECT_DOUBLE_EQ(Waves(2.5, 0.5), 2.75);
  EXPECT_DOUBLE_EQ(Waves(0.5, 0), 1);  // a block takes as long on an empty GPU
}

TEST(GemmCurves, TakeTheFastestTile) {
  GemmCurve curve = Grid();
  curve.tiles.push_back({64, 64, 0.5});
  const GpuSpec gpu = Gpu(curve);
  // 64 x 64 fits one small tile: 2 x 64 x 64 x 1000 / 5 TFLOP/s.
  EXPECT_DOUBLE_EQ(Seconds(gpu, 64, 64, 1000), 2.0 * 64 * 64 * 1000 / 5e12);
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256 * 100, 1000), kBlock);
}

TEST(GemmCurves, ChargeStartAndEndOfATile) {
  GemmCurve curve = Grid();
  curve.k_overhead = 250;
  EXPECT_DOUBLE_EQ(Seconds(Gpu(curve), 128, 256, 1000), 1.25 * kBlock);
}

// One tile, k in four: a quarter of the time and 4 x 8 bytes of partial sums per element.
TEST(GemmCurves, SplitALongK) {
  GemmCurve curve = Grid();
  curve.split_k = 4;
  GpuSpec gpu = Gpu(curve);
  gpu.hbm_bandwidth = {1e15};
  const double sums = 4 * 8.0 * 128 * 256 / 1e15;
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256, 1000), kBlock / 4 + sums);
  EXPECT_EQ(PriceKernel(GemmWork(DType::kBf16, 128, 256, 1000), gpu).tiles, 4);
}

TEST(GemmCurves, DistinguishLayoutsAndOutputs) {
  GemmCurve curve = Grid();
  curve.input_gradient = 0.5;
  curve.weight_gradient = 0.25;
  curve.fp32_output = 0.8;
  const GpuSpec gpu = Gpu(curve);
  const auto seconds = [&](DType output, Pass pass) {
    return PriceKernel(GemmWork(DType::kBf16, output, {128, 256, 1000}, pass), gpu).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(DType::kBf16, Pass::kForward), kBlock);
  EXPECT_DOUBLE_EQ(seconds(DType::kBf16, Pass::kInputGradient), 2 * kBlock);
  EXPECT_DOUBLE_EQ(seconds(DType::kFp32, Pass::kWeightGradient), 5 * kBlock);
}

TEST(GemmCurves, SlowDownOnMisalignedRows) {
  GemmCurve curve = Grid();
  curve.misaligned = 0.5;
  const GpuSpec gpu = Gpu(curve);
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 255, 1000), 2 * kBlock);  // 510 bytes
  EXPECT_DOUBLE_EQ(Seconds(gpu, 127, 256, 1000), kBlock);      // rows may be any number
  EXPECT_GT(Seconds(gpu, 128, 256, 1004), 2 * kBlock);         // 2008 bytes
  const ComputeWork gradient = GemmWork(DType::kBf16, 127, 256, 1000, Pass::kWeightGradient);
  EXPECT_DOUBLE_EQ(PriceKernel(gradient, gpu).seconds, 2 * kBlock);
}

TEST(GemmCurves, NeverBeatTheMemory) {
  GpuSpec gpu = Gpu(Grid());
  gpu.hbm_bandwidth = {1e12};
  gpu.memory_efficiency = 0.5;
  gpu.kernel_latency = Duration{1'000'000};
  const ComputeWork work = GemmWork(DType::kBf16, 16, 4096, 4096);
  const KernelCost cost = PriceKernel(work, gpu);
  EXPECT_DOUBLE_EQ(cost.seconds, ToDouble(work.bytes) / 0.5e12 + 1e-6);
  EXPECT_EQ(cost.bound, "memory");
  gpu.gemm[0].memory_efficiency = 1;
  gpu.gemm[0].latency = Duration{2'000'000};
  EXPECT_DOUBLE_EQ(PriceKernel(work, gpu).seconds, ToDouble(work.bytes) / 1e12 + 2e-6);
}

TEST(GemmCurves, ScaleWithTheGpusEfficiency) {
  GpuSpec gpu = Gpu(Grid());
  gpu.gemm_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256, 1000), 2 * kBlock);
  gpu.gemm[0].efficiency = 1.25;
  EXPECT_DOUBLE_EQ(Seconds(gpu, 128, 256, 1000), 1.6 * kBlock);
}

TEST(GemmCurves, OneGroupOfManyIsOneGrid) {
  const GpuSpec gpu = Gpu(Grid());
  const ComputeWork work =
      GemmWork(DType::kBf16, DType::kBf16, {128, 256, 1000, 101}, Pass::kForward);
  EXPECT_DOUBLE_EQ(PriceKernel(work, gpu).seconds, 2 * kBlock);
}

TEST(GemmCurves, ATypeWithoutACurveBorrowsThe16BitOne) {
  const GpuSpec gpu = Gpu(Grid());
  EXPECT_FALSE(PriceKernel(GemmWork(DType::kFp16, 512, 512, 512), gpu).is_extrapolated);
  const KernelCost fp8 = PriceKernel(GemmWork(DType::kFp8, 128, 256, 1000), gpu);
  EXPECT_DOUBLE_EQ(fp8.seconds, kBlock / 2);  // its own peak
  EXPECT_TRUE(fp8.is_extrapolated);
}

// 100 TFLOP/s without a curve: 2 x 128 x 256 x 1000 FLOP at the constant efficiency.
TEST(GemmCurves, SinglePrecisionFallsBackToTheConstant) {
  GpuSpec gpu = Gpu(Grid());
  gpu.gemm_efficiency = 0.5;
  const KernelCost cost = PriceKernel(GemmWork(DType::kFp32, 128, 256, 1000), gpu);
  EXPECT_DOUBLE_EQ(cost.seconds, 2.0 * 128 * 256 * 1000 / 50e12);
  EXPECT_EQ(cost.tiles, 0);
  EXPECT_DOUBLE_EQ(PriceKernel(GemmWork(DType::kFp32, 128, 256, 1000), gpu, 25).seconds,
                   4 * cost.seconds);
}

// A convolution's FLOPs have no m, n, k: 2 x 1000^3 FLOP count as a k of 1000.
TEST(GemmCurves, WithoutAShapeTheCubeOfTheFlopsHolds) {
  GemmCurve curve = Grid();
  curve.efficiency = 0.5;
  curve.k_overhead = 250;
  ComputeWork work;
  work.compute_class = ComputeClass::kGemm;
  work.dtype = DType::kBf16;
  work.flops = {2e9};
  EXPECT_DOUBLE_EQ(PriceKernel(work, Gpu(curve)).seconds, 2e9 / 500e12 * 1.25);
}

TEST(GemmCurves, SayWhereTheyWereFitted) {
  GemmCurve curve = Grid();
  curve.smallest = {1e9};
  curve.largest = {1e12};
  curve.residual = 0.04;
  const GpuSpec gpu = Gpu(curve);
  EXPECT_FALSE(PriceKernel(GemmWork(DType::kBf16, 1024, 1024, 1024), gpu).is_extrapolated);
  EXPECT_TRUE(PriceKernel(GemmWork(DType::kBf16, 512, 512, 512), gpu).is_extrapolated);
  EXPECT_TRUE(PriceKernel(GemmWork(DType::kBf16, 16384, 16384, 16384), gpu).is_extrapolated);
  EXPECT_EQ(PriceKernel(GemmWork(DType::kBf16, 1024, 1024, 1024), gpu).residual, 0.04);
}

// More rows, columns, steps or groups never take less time; more SMs never more.
TEST(GemmCurves, AreMonotonous) {
  GemmCurve curve = Grid();
  curve.tiles = {{256, 128, 1}, {128, 64, 0.7}, {64, 32, 0.4}};
  curve.tail = 0.6;
  curve.k_overhead = 120;
  curve.split_k = 8;
  GpuSpec gpu = Gpu(curve);
  gpu.hbm_bandwidth = {2e12};
  std::mt19937_64 random(7);
  const auto side = [&] { return static_cast<std::int64_t>(random() % 5000 + 1); };
  for (int i = 0; i < 2000; ++i) {
    const GemmShape small{side(), side(), side(), static_cast<std::int64_t>(random() % 4 + 1)};
    GemmShape large = small;
    std::int64_t* const grown[] = {&large.m, &large.n, &large.k, &large.groups};
    *grown[i % 4] += static_cast<std::int64_t>(random() % 1000);
    const auto seconds = [&](const GemmShape& shape, std::int64_t sms) {
      return PriceKernel(GemmWork(DType::kBf16, DType::kBf16, shape, Pass::kForward), gpu, sms)
          .seconds;
    };
    EXPECT_LE(seconds(small, 100), seconds(large, 100) * (1 + 1e-12));
    EXPECT_LE(seconds(small, 100), seconds(small, 76) * (1 + 1e-12));
  }
}

TEST(PriceKernel, RefusesMoreSmsThanThereAre) {
  const GpuSpec gpu = Gpu(Grid());
  const ComputeWork work = GemmWork(DType::kBf16, 128, 256, 1000);
  EXPECT_THROW(PriceKernel(work, gpu, 101), InternalError);
  EXPECT_THROW(PriceKernel(work, gpu, 0), InternalError);
}

// ---- Attention ----

GpuSpec AttentionGpu(AttentionCurve curve) {
  GpuSpec gpu = Gpu(Grid());
  gpu.attention_efficiency = 0.5;
  gpu.attention = curve;
  return gpu;
}

TEST(AttentionCurves, TheDefaultIsTheConstantEfficiency) {
  // 100 blocks of 128 rows fill 100 SMs: 4 x 100 x 128 x 128 x 128 FLOP at 500 TFLOP/s.
  const ComputeWork work = AttentionForwardWork({100, 128, 1, 1, 128, false}, DType::kBf16);
  EXPECT_DOUBLE_EQ(PriceKernel(work, AttentionGpu({})).seconds, work.flops.value / 500e12);
}

TEST(AttentionCurves, FollowPassKeysAndHeads) {
  AttentionCurve curve;
  curve.forward = 2;
  curve.key_ramp = 128;
  curve.head_dim_ramp = 128;
  const GpuSpec gpu = AttentionGpu(curve);
  const ComputeWork forward = AttentionForwardWork({100, 128, 1, 1, 128, false}, DType::kBf16);
  // twice the efficiency, and half of it lost to the ramp
  EXPECT_DOUBLE_EQ(PriceKernel(forward, gpu).seconds, forward.flops.value / 500e12);
  const ComputeWork backward = AttentionBackwardWork({100, 128, 1, 1, 128, false}, DType::kBf16);
  EXPECT_DOUBLE_EQ(PriceKernel(backward, gpu).seconds, backward.flops.value / 250e12);
  // heads of 64: 64 / 192 against 128 / 256
  const ComputeWork narrow = AttentionForwardWork({100, 128, 1, 1, 64, false}, DType::kBf16);
  EXPECT_DOUBLE_EQ(PriceKernel(narrow, gpu).seconds, narrow.flops.value / (500e12 * 2 / 3));
}

// Measured: 512 to 16384 keys, heads of 64 to 128, 16 bits.
TEST(AttentionCurves, SayWhereTheyWereMeasured) {
  AttentionCurve curve;
  curve.residual = 0.02;
  const auto is_outside = [&curve](std::int64_t keys, std::int64_t head, DType dtype) {
    const ComputeWork work = AttentionForwardWork({1, keys, 8, 8, head, true}, dtype);
    return PriceKernel(work, AttentionGpu(curve)).is_extrapolated;
  };
  EXPECT_FALSE(is_outside(1, 8, DType::kFp16));  // nothing is said
  curve.shortest = 512;
  curve.longest = 16384;
  curve.narrowest = 64;
  curve.widest = 128;
  EXPECT_FALSE(is_outside(512, 64, DType::kBf16));
  EXPECT_FALSE(is_outside(16384, 128, DType::kFp16));
  EXPECT_TRUE(is_outside(511, 128, DType::kBf16));
  EXPECT_TRUE(is_outside(16385, 128, DType::kBf16));
  EXPECT_TRUE(is_outside(4096, 32, DType::kBf16));
  EXPECT_TRUE(is_outside(4096, 256, DType::kBf16));
  EXPECT_TRUE(is_outside(4096, 128, DType::kFp8));
}

// 12,800 rows: 200 blocks of 64 rows are two waves on 100 SMs, 50 blocks of 256 use half of them.
TEST(AttentionCurves, RowsOfABlock) {
  const ComputeWork work = AttentionForwardWork({1, 12800, 1, 1, 128, false}, DType::kBf16);
  AttentionCurve curve;
  curve.query_rows = 64;
  EXPECT_DOUBLE_EQ(PriceKernel(work, AttentionGpu(curve)).seconds, work.flops.value / 500e12);
  curve.query_rows = 256;
  EXPECT_DOUBLE_EQ(PriceKernel(work, AttentionGpu(curve)).seconds, work.flops.value / 250e12);
}

// 150 blocks on 100 SMs: one wave and a half, or two whole ones.
TEST(AttentionCurves, BlocksComeInWaves) {
  const ComputeWork work = AttentionForwardWork({150, 128, 1, 1, 128, false}, DType::kBf16);
  AttentionCurve curve;
  EXPECT_DOUBLE_EQ(PriceKernel(work, AttentionGpu(curve)).seconds, work.flops.value / 500e12);
  curve.tail = 1;
  EXPECT_DOUBLE_EQ(PriceKernel(work, AttentionGpu(curve)).seconds,
                   2 / 1.5 * work.flops.value / 500e12);
}

TEST(AttentionCurves, HaveTheirOwnBackwardAndLatency) {
  const ComputeWork work = AttentionBackwardWork({100, 128, 1, 1, 128, false}, DType::kBf16);
  AttentionCurve curve;
  curve.backward = 0.5;
  curve.latency = Duration{7'000'000};  // 7 us
  curve.residual = 0.04;
  const KernelCost cost = PriceKernel(work, AttentionGpu(curve));
  EXPECT_DOUBLE_EQ(cost.seconds, work.flops.value / 250e12 + work.kernels * 7e-6);
  EXPECT_EQ(cost.residual, 0.04);
}

// A causal block of the last rows takes twice the mean: one head cannot use more than half a GPU.
TEST(AttentionCurves, TheLongestBlockSetsTheFloor) {
  const ComputeWork work = AttentionForwardWork({1, 12800, 1, 1, 128, true}, DType::kBf16);
  EXPECT_NEAR(PriceKernel(work, AttentionGpu({})).seconds, 2 * work.flops.value / 500e12, 1e-12);
}

}  // namespace
}  // namespace stepsim
