#include "models/calibration/kernel_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/calibration/minimize.h"
#include "models/cost/kernel_cost.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

// Rosenbrock's valley has its minimum at (1, 1).
TEST(Minimize, FindsTheEndOfAValley) {
  const std::vector<double> best = Minimize(
      [](const std::vector<double>& x) {
        return std::pow(1 - x[0], 2) + 100 * std::pow(x[1] - x[0] * x[0], 2);
      },
      {-1.2, 1}, {.tolerance = 1e-14});
  EXPECT_NEAR(best[0], 1, 1e-3);
  EXPECT_NEAR(best[1], 1, 1e-3);
}

GpuSpec Gpu() {
  GpuSpec gpu;
  gpu.sms = 108;
  gpu.peak.bf16 = {312e12};
  gpu.hbm_bandwidth = {2e12};
  gpu.gemm_efficiency = 0.7;
  gpu.memory_efficiency = 0.85;
  gpu.kernel_latency = Duration{3'000'000};
  return gpu;
}

GemmCurve Truth() {
  GemmCurve curve;
  curve.efficiency = 1.1;
  curve.tail = 0.6;
  curve.k_overhead = 150;
  curve.weight_gradient = 0.9;
  curve.tiles = {{256, 128, 1}, {128, 128, 0.8}, {128, 64, 0.65}};
  return curve;
}

// Times of a known curve for shapes of transformer layers.
std::vector<KernelPoint> Points(const GemmCurve& truth) {
  GpuSpec gpu = Gpu();
  gpu.gemm = {truth};
  std::vector<KernelPoint> points;
  for (const std::int64_t h : {768, 1024, 1536, 2048, 3072, 4096, 5120}) {
    for (const std::int64_t tokens : {1000, 2048, 4096}) {
      for (const std::int64_t f : {3 * h, 4 * h}) {
        for (const ComputeWork& work :
             {GemmWork(DType::kBf16, tokens, f, h),
              GemmWork(DType::kBf16, f, h, tokens, Pass::kWeightGradient)}) {
          points.push_back({work, PriceKernel(work, gpu).seconds});
        }
      }
    }
  }
  return points;
}

TEST(FitGemmCurve, RecoversAKnownCurve) {
  const GemmCurve curve = FitGemmCurve(Points(Truth()), Gpu(), DType::kBf16);
  EXPECT_NEAR(curve.efficiency, 1.1, 0.02);
  EXPECT_NEAR(curve.tail, 0.6, 0.08);
  EXPECT_NEAR(curve.weight_gradient, 0.9, 0.01);
  EXPECT_LT(curve.residual, 0.01);
  EXPECT_EQ(curve.smallest, (GemmWork(DType::kBf16, 1000, 3 * 768, 768).flops));
}

TEST(FitGemmCurve, IsNotPulledByAFewBadPoints) {
  std::vector<KernelPoint> points = Points(Truth());
  for (std::size_t i = 0; i < points.size(); i += 12) points[i].seconds *= 3;
  const GemmCurve curve = FitGemmCurve(points, Gpu(), DType::kBf16);
  EXPECT_NEAR(curve.efficiency, 1.1, 0.04);
}

TEST(FitGemmCurve, IsDeterministic) {
  const std::vector<KernelPoint> points = Points(Truth());
  const GemmCurve a = FitGemmCurve(points, Gpu(), DType::kBf16);
  const GemmCurve b = FitGemmCurve(points, Gpu(), DType::kBf16);
  EXPECT_EQ(a.efficiency, b.efficiency);
  EXPECT_EQ(a.tail, b.tail);
}

// A shape measured twice, ten times too slow both times: whoever fits with its twin sees it.
TEST(PredictLeftOut, DoesNotSeeTheShape) {
  std::vector<KernelPoint> points = Points(Truth());
  const ComputeWork odd = GemmWork(DType::kBf16, 777, 1552, 6400);
  GpuSpec gpu = Gpu();
  gpu.gemm = {Truth()};
  const double honest = PriceKernel(odd, gpu).seconds;
  for (int i = 0; i < 2; ++i) points.push_back({odd, 10 * honest});
  const std::vector<double> seconds = PredictLeftOut(points, Gpu(), DType::kBf16, 3);
  EXPECT_NEAR(seconds.back() / honest, 1, 0.1);
}

TEST(MedianError, IsTheMiddleOne) {
  const ComputeWork work = GemmWork(DType::kBf16, 1, 1, 1);
  const std::vector<KernelPoint> points = {{work, 1}, {work, 1}, {work, 1}};
  const std::vector<double> seconds = {1.5, 0.9, 1.01};
  EXPECT_DOUBLE_EQ(MedianError(points, seconds), 1 - 0.9);
}

}  // namespace
}  // namespace stepsim
