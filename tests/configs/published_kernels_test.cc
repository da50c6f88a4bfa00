// Do the shipped profiles reproduce published matrix products? tests/data/gemm_points_small.csv, a
// sample of each sweep; the bounds are the aims of models/README.md, "Kernels".
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/calibration/kernel_validation.h"
#include "models/cost/kernel_cost.h"
#include "models/spec/load_job.h"
#include "models/workload/kernel_work.h"
#include "models/workload/memory_passes.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

KernelValidation Published() {
  const std::string path = "tests/data/gemm_points_small.csv";
  const CsvTable table = ParseCsv(testing::ReadRepositoryFile(path), path);
  return {ReadKernelTable(table), testing::ShippedConfigs()};
}

std::vector<double> Errors(const KernelValidation& validation, const std::string& profile,
                           DType dtype, bool is_grouped) {
  const auto predictions = validation.Predict(false);
  std::vector<double> errors;
  for (const KernelGroup& group : validation.groups()) {
    if (group.profile != profile) continue;
    for (const std::size_t i : group.rows) {
      const KernelRow& row = validation.rows()[i];
      if (row.work.dtype != dtype || (row.work.batch > 1) != is_grouped) continue;
      errors.push_back(predictions[i]->seconds / row.seconds - 1);
    }
  }
  return errors;
}

struct Bound {
  std::string profile;
  DType dtype;
  bool is_grouped;
  std::size_t points;
  double median;
};

TEST(PublishedKernels, LieWithinTheAims) {
  const KernelValidation validation = Published();
  for (const Bound& bound : {Bound{"a100-80g-pcie", DType::kBf16, false, 24, 0.04},
                             Bound{"a100-80g-pcie", DType::kBf16, true, 12, 0.07},
                             Bound{"a100-80g-dgx", DType::kFp16, false, 8, 0.04},
                             Bound{"h100-sxm-dgx", DType::kFp8, false, 25, 0.06},
                             Bound{"b200-dgx", DType::kBf16, false, 52, 0.07},
                             Bound{"v100-dgx1", DType::kFp16, false, 24, 0.08},
                             Bound{"v100-dgx1", DType::kFp32, false, 24, 0.08}}) {
    const ErrorSummary summary =
        Summarize(Errors(validation, bound.profile, bound.dtype, bound.is_grouped));
    EXPECT_EQ(summary.count, bound.points) << bound.profile;
    EXPECT_LE(summary.median, bound.median) << bound.profile << ' ' << ToString(bound.dtype);
  }
}

TEST(PublishedKernels, NameWhatTheyCannotScore) {
  const KernelValidation validation = Published();
  EXPECT_EQ(validation.unknown_gpus(), std::vector<std::string>{"MI300X"});
  EXPECT_EQ(validation.table().no_shape, 1u);
  EXPECT_EQ(validation.table().other_kinds, 1u);
}

GpuSpec GpuOf(const std::string& profile) {
  const std::string path = "configs/hardware/" + profile + ".yaml";
  return LoadHardwareText(testing::ReadRepositoryFile(path), path).gpu;
}

// The SwiGLU of stas00/ml-engineering on H100, hidden size 4096: 272.7 TFLOP/s with an inner size
// of 10922, 398.4 with 10944. The products of forward and the element-wise kernels between them.
TEST(PublishedKernels, MisalignedSwiGluLosesAThird) {
  const GpuSpec gpu = GpuOf("h100-sxm-dgx");
  const std::int64_t tokens = 8192;
  const auto rate = [&](std::int64_t inner) {
    const ComputeWork up = GemmWork(DType::kBf16, tokens, inner, 4096);
    const ComputeWork down = GemmWork(DType::kBf16, tokens, 4096, inner);
    const ComputeWork between = TrafficWork(PassesOf(KernelMode::kEager).gated_activation,
                                            {DType::kBf16, DType::kBf16}, tokens * inner);
    const double seconds = 2 * PriceKernel(up, gpu).seconds + PriceKernel(down, gpu).seconds +
                           PriceKernel(between, gpu).seconds;
    return (up.flops.value * 2 + down.flops.value) / seconds;
  };
  EXPECT_NEAR(rate(10922) / rate(10944), 272.73 / 398.38, 0.05);
  EXPECT_NEAR(rate(11008) / rate(10944), 395.01 / 398.38, 0.02);
}

// pytorch/pytorch PR #172714: 8192^3 in fp16 on H100 runs at 662 TFLOP/s.
TEST(PublishedKernels, LargeSquareOnH100) {
  const ComputeWork work = GemmWork(DType::kFp16, 8192, 8192, 8192);
  const double rate = work.flops.value / PriceKernel(work, GpuOf("h100-sxm-dgx")).seconds;
  EXPECT_NEAR(rate / 662e12, 1, 0.02);
}

// FlashAttention-3 forward on H100, 16 heads of 128, 16384 tokens in all (pytorch/benchmark PR
// 2391).
TEST(PublishedKernels, FlashAttentionOnH100) {
  const GpuSpec gpu = GpuOf("h100-sxm-dgx");
  struct Point {
    std::int64_t sequence;
    double tflops;
  };
  for (const Point& point : {Point{512, 430.32}, Point{1024, 517.1}, Point{2048, 565.54},
                             Point{4096, 590.23}, Point{8192, 614.23}, Point{16384, 620.73}}) {
    const AttentionShape shape{16384 / point.sequence, point.sequence, 16, 16, 128, false};
    const ComputeWork work = AttentionForwardWork(shape, DType::kBf16);
    const double rate = work.flops.value / PriceKernel(work, gpu).seconds;
    EXPECT_NEAR(rate / (point.tflops * 1e12), 1, 0.04) << point.sequence;
  }
}

// FlashAttention-2 forward and backward, batch 2, 8192 tokens, heads of 64, on A100 SXM (Azure's
// benchmarking guide): 179.5 TFLOP/s. 2048 columns.
TEST(PublishedKernels, FlashAttentionOnA100) {
  const AttentionShape shape{2, 8192, 32, 32, 64, false};
  const GpuSpec gpu = GpuOf("a100-80g-dgx");
  const ComputeWork forward = AttentionForwardWork(shape, DType::kBf16);
  const ComputeWork backward = AttentionBackwardWork(shape, DType::kBf16);
  const double seconds = PriceKernel(forward, gpu).seconds + PriceKernel(backward, gpu).seconds;
  EXPECT_NEAR((forward.flops + backward.flops).value / seconds / 179.5e12, 1, 0.04);
}

}  // namespace
}  // namespace stepsim
