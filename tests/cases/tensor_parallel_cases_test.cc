// Tensor parallelism against published pairs of runs. Questions of practitioners that are answered
// by single runs are in tensor_parallel.yaml.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using Sets = std::vector<std::string>;

StepReport RunText(const std::string& text, const Sets& sets) {
  StepReport report = RunStep(testing::LoadText(text, sets)).report;
  testing::ExpectIdentity(report);
  return report;
}

double Seconds(const std::string& text, const Sets& sets) {
  return RunText(text, sets).step_time_s();
}

Sets With(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// ---- Async TP: published pairs ----

// torchtitan's H100s are 96 GB parts of 2.4 TB/s and 500 W: the speed of products is found from the
// run without async TP, the gain is what is tested.
struct Pair {
  std::string model;
  int nodes = 0, batch = 0;
  std::string recompute, dtype;
  double without = 0, with = 0;  // tokens/s/GPU
};

std::string JobOf(const Pair& pair) {
  return "{model: " + pair.model +
         ", hardware: h100-sxm-dgx, nodes: " + std::to_string(pair.nodes) +
         ", plan: {strategy: fsdp2, tensor_parallel: 8}, batch: {micro_batch_size: " +
         std::to_string(pair.batch) +
         ", sequence_length: 8192}, precision: {compute: " + pair.dtype +
         "}, kernels: compiled, recompute: " + pair.recompute + "}";
}

// Tokens/s with over without.
double Gain(const Pair& pair) {
  const std::string job = JobOf(pair);
  const double tokens = pair.batch * 8192 / 8.0;
  double low = 0.1, high = 0.705;
  Sets sets;
  for (int i = 0; i < 8; ++i) {
    const double efficiency = (low + high) / 2;
    sets = {"hardware.gpu.hbm_bandwidth=2400 GB/s",
            "hardware.gpu.gemm_efficiency=" + std::to_string(efficiency)};
    (tokens / Seconds(job, sets) > pair.without ? high : low) = efficiency;
  }
  const double without = Seconds(job, sets);
  EXPECT_NEAR(tokens / without, pair.without, 0.02 * pair.without);
  return without / Seconds(job, With(sets, {"plan.tensor.overlap=async_tp"}));
}

constexpr const char* kFull = "{granularity: full}";
constexpr const char* kEveryOther = "{granularity: selective, policy: op}";

// pytorch/torchtitan, benchmarks of 2025-06: 64 H100 with 8B, 256 with 70B. Within four points of
// the published gains of 9.9%, 9.7%, 9.2% and 16.4%.
TEST(TensorParallelCases, AsyncPairsOf2025) {
  const std::vector<Pair> pairs = {
      {"llama-3-8b", 8, 12, kEveryOther, "bf16", 4378, 4809.4},
      {"llama-3-8b", 8, 12, kEveryOther, "fp8", 5078.1, 5570.1},
      {"llama-3-70b", 32, 16, kFull, "bf16", 597.3, 652.4},
      {"llama-3-70b", 32, 16, kFull, "fp8", 809.8, 942.4},
  };
  for (const Pair& pair : pairs) {
    EXPECT_NEAR(Gain(pair), pair.with / pair.without, 0.04) << pair.model << " " << pair.dtype;
  }
}

// UC075, NVIDIA/TransformerEngine#737: without sequence parallelism there is no such overlap.
TEST(TensorParallelCases, Uc075_NoOverlapWithoutSequenceParallelism) {
  EXPECT_THROW(
      testing::LoadText(
          "{model: llama-3.2-1b, hardware: h100-sxm-dgx, plan: {strategy: fsdp2, tensor_parallel: "
          "8}, batch: {sequence_length: 1024}}",
          {"plan.tensor.overlap=user_buffers", "plan.tensor.sequence_parallel=false"}),
      std::exception);
}

}  // namespace
}  // namespace stepsim
