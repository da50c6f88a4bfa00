// Is the workload right where theory is exact? Published parameter counts, FLOP formulas,
// activation memory and gradient sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/workload/model_flops.h"
#include "models/workload/workload.h"
#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using testing::AutocastJobOf;
using ::testing::ElementsAre;
using testing::JobOf;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(ParameterCount, EqualsThePublishedOne) {
  for (const auto& model : testing::PublishedModels()) {
    EXPECT_EQ(BuildWorkload(JobOf(model.spec, 1, 64)).parameter_count(), model.parameters)
        << model.name;
    EXPECT_EQ(ParameterCount(model.spec), model.parameters) << model.name;
  }
}

double TeraFlops(const JobSpec& job, const std::string& convention) {
  for (const auto& [name, flops] : ModelFlops(job)) {
    if (name == convention) return std::round(flops.value / 1e9) / 1e3;
  }
  return 0;
}

// One sequence of 8192 tokens through Llama-3-8B, TFLOP to the third decimal:
//   6 N T                                   394.703
//   3 x (linears + attention / 2)           421.646
//   6 (N - N_embedding) T + full attention  474.435
//   6 N T + full attention                  500.257
TEST(FlopTable, Llama3AtEightThousandTokens) {
  const JobSpec job = JobOf(testing::Llama3Of8b(), 1, 8192);
  EXPECT_DOUBLE_EQ(TeraFlops(job, "palm"), 500.257);
  EXPECT_DOUBLE_EQ(TeraFlops(job, "megatron"), 421.646);
  EXPECT_DOUBLE_EQ(TeraFlops(job, "torchtitan"), 474.435);
  // The diagonal: s/2 more pairs for each head and sequence,
  // 3 x 4 x 32 x 4096 x 8192 / 2 = 6.442e9 FLOPs above megatron's.
  EXPECT_DOUBLE_EQ(TeraFlops(job, "causal"), 421.652);
  const double six_n = 6.0 * static_cast<double>(ParameterCount(testing::Llama3Of8b())) * 8192;
  EXPECT_DOUBLE_EQ(std::round(six_n / 1e9) / 1e3, 394.703);
}

// The same network with full attention counts exactly: 474.422.
TEST(FlopTable, FullAttentionExact) {
  TransformerSpec spec = testing::Llama3Of8b();
  spec.causal = false;
  spec.mlm_head = true;  // keeps the vocabulary head, adds 3 x 2 T h^2 of its own
  const double transform = 3 * 2.0 * 8192 * 4096 * 4096 / 1e12;
  EXPECT_NEAR(TeraFlops(JobOf(spec, 1, 8192), "causal") - transform, 474.422, 0.0006);
}

// Korthikanti et al. for MHA, a 4h MLP and full attention:
// 72 B L s h^2 (1 + s/(6h) + V/(12 h L)).
TEST(FlopTable, KorthikantiForPlainGpt) {
  TransformerSpec spec = testing::Gpt3();
  spec.causal = false;
  spec.mlm_head = true;
  const double h = 12288, l = 96, s = 2048, v = 50257, b = 2;
  const double expected = 72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  const double transform = 3 * 2 * b * s * h * h;
  const auto counts = ModelFlops(JobOf(spec, 2, 2048));
  EXPECT_NEAR((counts[1].second.value - transform) / expected, 1, 1e-12);
}

struct Sums {
  double linear_forward = 0, linear_backward = 0, attention_forward = 0, attention_backward = 0;
};

Sums SumFlops(const Workload& workload) {
  Sums sums;
  const auto add = [](Sums& to, const ComputeWork& work, bool forward) {
    const bool attention = work.compute_class == ComputeClass::kAttention;
    (attention ? (forward ? to.attention_forward : to.attention_backward)
               : (forward ? to.linear_forward : to.linear_backward)) += work.flops.value;
  };
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) {
      add(sums, op.forward, true);
      for (const ComputeWork& work : op.backward_input) add(sums, work, false);
      for (const ComputeWork& work : op.backward_weight) add(sums, work, false);
    }
  }
  return sums;
}

TEST(OperatorFlops, SumToTheFormulas) {
  for (const bool autocast : {false, true}) {
    for (const bool gated : {false, true}) {
      TransformerSpec spec = gated ? testing::Llama3Of8b() : testing::Gpt2();
      spec.layers = 3;
      spec.vocab_multiple = 512;
      const double b = 2, s = 256, t = b * s, layers = 3;
      const Sums sums =
          SumFlops(BuildWorkload(autocast ? AutocastJobOf(spec, 2, 256) : JobOf(spec, 2, 256)));
      const double h = static_cast<double>(spec.hidden_size);
      const double d = static_cast<double>(spec.head_dim);
      const double query = d * static_cast<double>(spec.heads);
      const double key = d * static_cast<double>(spec.kv_heads);
      const double f = static_cast<double>(spec.ffn_size);
      const double vocabulary = gated ? 128512 : 50688;  // multiples of 512: 251, 99
      const double linear = layers * (2 * t * h * (query + 2 * key) + 2 * t * query * h +
                                      (gated ? 6 : 4) * t * h * f) +
                            2 * t * h * vocabulary;
      const double attention = layers * 4 * b * query * s * (s + 1) / 2;
      EXPECT_DOUBLE_EQ(sums.linear_forward, linear);
      EXPECT_DOUBLE_EQ(sums.linear_backward, 2 * linear);
      EXPECT_DOUBLE_EQ(sums.attention_forward, attention);
      EXPECT_DOUBLE_EQ(sums.attention_backward, 2.5 * attention);
    }
  }
}

// HFU / MFU: attention's backward executes one forward product more; nothing else differs.
TEST(OperatorFlops, ExceedTheModelsByTheRecomputedScores) {
  const JobSpec job = JobOf(testing::Llama3Of8b(), 1, 1024);
  const double model = ModelFlops(job)[3].second.value;
  const double scores = 32 * 2.0 * 4096 * 1024 * 1025 / 2;
  EXPECT_DOUBLE_EQ(HardwareFlops(BuildWorkload(job)).value, model + scores);
}

std::int64_t SavedByLayer(const Workload& workload) {
  std::int64_t bytes = 0;
  for (const Operator& op : workload.units[1].operators) bytes += op.saved.value;
  return bytes;
}

// Korthikanti et al.: s b h (10 + 24) with flash attention, dropout, GELU and a 4h MLP in 16 bit.
TEST(ActivationMemory, GptLayerKeepsThirtyFourBytes) {
  const Workload workload = BuildWorkload(JobOf(testing::Gpt2(), 4, 1024));
  EXPECT_EQ(SavedByLayer(workload), 34LL * 1024 * 4 * 768);
}

// Without dropout both masks go: 32.
TEST(ActivationMemory, DropoutKeepsTwoMasks) {
  TransformerSpec spec = testing::Gpt2();
  spec.dropout = 0;
  EXPECT_EQ(SavedByLayer(BuildWorkload(JobOf(spec, 4, 1024))), 32LL * 1024 * 4 * 768);
}

// SwiGLU, 16 bit: 2 T (norm1 h + qkv h + (n_q + 2 n_kv) d + proj n_q d + norm2 h + mlp h + 3 f).
TEST(ActivationMemory, LlamaLayerKeepsItsTensors) {
  JobSpec job = JobOf(testing::Llama3Of8b(), 1, 8192);
  job.kernels = KernelMode::kFused;
  const std::int64_t columns = 4 * 4096 + (32 + 2 * 8) * 128 + 32 * 128 + 3 * 14336;
  EXPECT_EQ(SavedByLayer(BuildWorkload(job)), 2LL * 8192 * columns);
  // Written out, each RMS norm keeps its input in fp32 beside its normalised one, SwiGLU
  // silu(gate).
  job.kernels = KernelMode::kEager;
  EXPECT_EQ(SavedByLayer(BuildWorkload(job)),
            2LL * 8192 * (columns + 14336) + 2 * 4LL * 8192 * 4096);
}

// Korthikanti et al.: 4 s b h (1 + V/h) for the last norm, the head and fp32 logits.
TEST(ActivationMemory, HeadKeepsFp32Logits) {
  const Workload workload = BuildWorkload(JobOf(testing::Gpt2(), 4, 1024));
  std::int64_t bytes = 0;
  for (std::size_t i = workload.units.size() - 3; i < workload.units.size(); ++i) {
    for (const Operator& op : workload.units[i].operators) bytes += op.saved.value;
  }
  EXPECT_EQ(bytes, 4LL * 1024 * 4 * (768 + 50257));
}

// Four layers, h = 1024, vocabulary 32000 (tied), fp32, one tensor a module: the gradients in order
// of arrival, closed as soon as a bucket holds 1 MiB (the first) or 25 MiB. The sizes are those
// that PyTorch's compute_bucket_assignment_by_size gives for this network.
TEST(GradientSizes, FillTheKnownBuckets) {
  TransformerSpec spec;
  spec.layers = 4;
  spec.hidden_size = 1024;
  spec.heads = spec.kv_heads = 16;
  spec.head_dim = 64;
  spec.ffn_size = 4096;
  spec.vocab_size = 32000;
  spec.tied_embeddings = true;
  spec.positions = PositionKind::kNone;
  const Workload workload = BuildWorkload(JobOf(spec, 1, 64, DType::kFp32));
  std::vector<std::int64_t> buckets;
  std::int64_t open = 0;
  for (const std::int32_t index : workload.ArrivalOrder()) {
    open += workload.parameters[static_cast<std::size_t>(index)].bytes().value;
    if (open < (buckets.empty() ? 1 : 25) * kMiB) continue;
    buckets.push_back(open);
    open = 0;
  }
  EXPECT_EQ(open, 0);
  EXPECT_THAT(buckets,
              ElementsAre(16781312, 33558528, 33558528, 33562624, 33558528, 33558528, 147857408));
}

}  // namespace
}  // namespace stepsim
