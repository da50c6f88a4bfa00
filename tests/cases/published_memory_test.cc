// Peak memory of published FSDP2 runs that the simulator can replay: Llama 3 8B on 8 x H100-96GB,
// torchtitan paper (arXiv 2410.06511) tables 1 and 2, rows of tests/data/memory_published.csv.
// Their figure is what the allocator has reserved, gradient shards in a pool of their own among it;
// ours is what is allocated at the peak with the stated slack. So ours is below, by 6% to 12%.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

struct PublishedPeak {
  std::string row;
  double gib;
  std::vector<std::string> sets;
};

class PublishedMemory : public ::testing::TestWithParam<PublishedPeak> {};

TEST_P(PublishedMemory, IsBelowWhatIsReserved) {
  const double simulated = ToDouble(RunStep(testing::LoadText(R"({
          model: llama-3-8b, hardware: {base: h100-sxm-dgx, gpu: {memory: 96 GiB}}, nodes: 1,
          plan: {strategy: fsdp2, fsdp2: {reduce_dtype: fp32}},
          batch: {micro_batch_size: 2, sequence_length: 8192},
          precision: {compute: bf16, parameters: fp32}, optimizer_impl: fused, loss: eager,
          recompute: {granularity: selective, policy: op}})",
                                                              GetParam().sets))
                                        .report.memory.total) /
                           (1 << 30);
  EXPECT_LE(simulated, GetParam().gib);
  EXPECT_GE(simulated, 0.87 * GetParam().gib);
}

INSTANTIATE_TEST_SUITE_P(
    Torchtitan, PublishedMemory,
    ::testing::Values(PublishedPeak{"m01827", 82.4, {}},
                      PublishedPeak{"m01828", 77.0, {"kernels=compiled"}},
                      PublishedPeak{
                          "m01833",
                          83.9,
                          {"kernels=compiled", "precision.compute=fp8", "batch.micro_batch_size=1",
                           "batch.sequence_length=32768", "recompute={granularity: full}"}}),
    [](const auto& row) { return row.param.row; });

}  // namespace
}  // namespace stepsim
