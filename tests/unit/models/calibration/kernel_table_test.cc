#include "models/calibration/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kHeader =
    "kind,gpu,m,n,k,groups_or_batch,layout,dtype_in,dtype_out,accumulate,tflops\n";

KernelTable Read(const std::string& rows) {
  const CsvTable table = ParseCsv(kHeader + rows, "points.csv");
  return ReadKernelTable(table);
}

std::vector<std::string> Problems(const std::string& rows) {
  try {
    Read(rows);
  } catch (const ConfigError& error) {
    std::vector<std::string> texts;
    for (const Diagnostic& d : error.diagnostics()) texts.push_back(d.ToString());
    return texts;
  }
  return {};
}

TEST(KernelTable, ReadsAProduct) {
  const KernelTable table = Read("gemm,A100,4096,1536,5120,1,TN,bf16,bf16,False,245.8\n");
  ASSERT_THAT(table.rows, SizeIs(1));
  const KernelRow& row = table.rows[0];
  EXPECT_EQ(row.gpu, "A100");
  EXPECT_EQ(row.work.flops, Flops{2.0 * 4096 * 1536 * 5120});
  EXPECT_DOUBLE_EQ(row.seconds, 2.0 * 4096 * 1536 * 5120 / 245.8e12);
  EXPECT_EQ(row.work.bytes, Bytes{2 * (4096 * 5120 + 5120 * 1536 + 4096 * 1536)});
  EXPECT_EQ(row.work.pass, Pass::kForward);
}

// The main gradient in fp32 is read and written.
TEST(KernelTable, AccumulationReadsTheResult) {
  const KernelTable table = Read("gemm,A100,100,200,300,1,NT,bf16,fp32,True,200\n");
  EXPECT_EQ(table.rows[0].work.bytes, Bytes{2 * (100 * 300 + 300 * 200) + 2 * 4 * 100 * 200});
  EXPECT_EQ(table.rows[0].work.pass, Pass::kWeightGradient);
  EXPECT_EQ(table.rows[0].work.output, DType::kFp32);
}

// An expert's gradients are written under the forward's shape: 616 rows, 3072 columns, k 5120.
TEST(KernelTable, TurnsTheGradientsOfExperts) {
  const KernelTable table = Read(
      "grouped_gemm,A100,616,3072,5120,40,bwd_grad_act,bf16,bf16,False,200\n"
      "grouped_gemm,A100,616,3072,5120,40,bwd_grad_w,bf16,bf16,True,200\n");
  const ComputeWork& input = table.rows[0].work;
  EXPECT_THAT((std::vector<std::int64_t>{input.m, input.n, input.k, input.batch}),
              ElementsAre(616, 5120, 3072, 40));
  const ComputeWork& weight = table.rows[1].work;
  EXPECT_THAT((std::vector<std::int64_t>{weight.m, weight.n, weight.k, weight.batch}),
              ElementsAre(3072, 5120, 616, 40));
  EXPECT_EQ(input.flops, weight.flops);
}

TEST(KernelTable, CountsWhatItCannotScore) {
  const KernelTable table = Read(
      "gemm,H100,,10922,4096,1,,bf16/fp16,,,272.73\n"
      "membw,A100,,,,,copy,,,,\n"
      "gemm,H100,64,64,64,,,fp8e4m3,,,1\n");
  EXPECT_EQ(table.no_shape, 1u);
  EXPECT_EQ(table.other_kinds, 1u);
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].work.dtype, DType::kFp8);
  EXPECT_EQ(table.rows[0].work.output, DType::kBf16);
}

TEST(KernelTable, RefusesWithPlaces) {
  EXPECT_THAT(Problems("gemm,A100,nan,64,64,1,TN,bf16,bf16,False,1\n"),
              ElementsAre(HasSubstr("points.csv:2:11: m")));
  EXPECT_THAT(Problems("gemm,A100,64,64,64,1,TN,bf16,bf16,False,0\n"),
              ElementsAre(HasSubstr("tflops")));
  EXPECT_THAT(Problems("gemm,A100,64,-64,64,1,TN,bf16,bf16,False,1\n"),
              ElementsAre(HasSubstr("points.csv:2:14: n")));
  EXPECT_THAT(Problems("gemm,A100,64,64,64,1,TN,bf17,bf16,False,1\n"),
              ElementsAre(HasSubstr("dtype_in: found 'bf17', allowed: fp32, tf32, bf16")));
  EXPECT_THAT(Problems("gemm,,64,64,64,1,TN,bf16,bf16,False,1\n"), ElementsAre(HasSubstr("gpu")));
  EXPECT_THAT(Problems("gemm,A100,9000000000,9000000000,64,1,TN,bf16,bf16,False,1\n"),
              ElementsAre(HasSubstr("1e12 elements")));
}

TEST(KernelTable, NeedsItsColumns) {
  const CsvTable table = ParseCsv("kind,gpu,m,n,k,tflops\n", "points.csv");
  EXPECT_THROW(ReadKernelTable(table), ConfigError);
}

TEST(MatchGpu, PrefersFormFactorAndMemory) {
  const std::vector<std::string> gpus = {"A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-80GB",
                                         "H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB",
                                         "GB200-186GB",    "RTX 4090",       "V100-SXM2-32GB"};
  const auto match = [&](const std::string& name) {
    const auto index = MatchGpu(name, gpus);
    return index.has_value() ? gpus[*index] : "none";
  };
  EXPECT_EQ(match("A100-PCIE"), "A100-PCIE-80GB");
  EXPECT_EQ(match("A100-SXM4-80GB"), "A100-SXM4-80GB");
  EXPECT_EQ(match("A100-SXM 400W"), "A100-SXM4-40GB");  // the first of equals
  EXPECT_EQ(match("NVIDIA A100 80GB PCIe"), "A100-PCIE-80GB");
  EXPECT_EQ(match("NVIDIA GeForce RTX 4090"), "RTX 4090");
  EXPECT_EQ(match("V100-SXM2-16GB (DGX-1)"), "V100-SXM2-32GB");
  EXPECT_EQ(match("H800"), "H100-SXM5-80GB");  // the same chip with other links
  EXPECT_EQ(match("GH200 900W 141GB"), "H200-SXM-141GB");
  EXPECT_EQ(*MatchGpu("H200", {"GH200-96GB", "H200-SXM-141GB"}), 1u);
  EXPECT_EQ(match("B200"), "B200-SXM-180GB");
  EXPECT_EQ(match("GB200"), "GB200-186GB");
  EXPECT_EQ(match("MI300X"), "none");
  EXPECT_EQ(match(""), "none");
}

}  // namespace
}  // namespace stepsim
