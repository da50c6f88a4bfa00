// What one tensor-parallel rank holds, computes and sends, against the equations of Korthikanti et
// al. 2022 (activation memory, volumes) and Megatron-LM's rules for sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/workload/local_transformer.h"
#include "models/workload/workload.h"
#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::JobOf;

constexpr std::int64_t kB = 4, kS = 1024, kH = 768, kA = 12;  // GPT-2
constexpr std::int64_t kSbh = kS * kB * kH;
constexpr std::int64_t kScores = 5 * kA * kS * kS * kB;

JobSpec Cut(JobSpec job, std::int64_t ranks, bool sequence) {
  job.plan.tensor_parallel = ranks;
  job.plan.tensor.sequence_parallel = sequence;
  return job;
}

JobSpec Gpt(std::int64_t ranks, bool sequence, AttentionKind attention = AttentionKind::kFlash) {
  JobSpec job = JobOf(testing::Gpt2(), kB, kS);
  job.kernels = KernelMode::kFused;
  job.attention = attention;
  return Cut(job, ranks, sequence);
}

JobSpec Llama(std::int64_t ranks, bool sequence = true) {
  return Cut(JobOf(testing::Llama3Of8b(), 1, 8192), ranks, sequence);
}

const ModelUnit& UnitNamed(const Workload& workload, const std::string& name) {
  const auto unit = std::find_if(workload.units.begin(), workload.units.end(),
                                 [&](const ModelUnit& u) { return u.name == name; });
  EXPECT_NE(unit, workload.units.end()) << name;
  return *unit;
}

const Operator& OperatorNamed(const Workload& workload, const std::string& unit,
                              const std::string& name) {
  const auto& operators = UnitNamed(workload, unit).operators;
  const auto op = std::find_if(operators.begin(), operators.end(),
                               [&](const Operator& o) { return o.name == name; });
  EXPECT_NE(op, operators.end()) << name;
  return *op;
}

Bytes KeptByLayer(const Workload& workload) {
  Bytes bytes;
  for (const Operator& op : UnitNamed(workload, "layers.0").operators) bytes += op.kept();
  return bytes;
}

// "fc1 before forward: all_gather 6291456"
std::vector<std::string> Exchanges(const Workload& workload, const std::string& unit) {
  constexpr const char* kPlaces[] = {"before forward", "after forward", "before backward",
                                     "beside dgrad",   "beside wgrad",  "after dgrad"};
  std::vector<std::string> lines;
  for (const Operator& op : UnitNamed(workload, unit).operators) {
    for (const Exchange& e : op.exchanges) {
      EXPECT_EQ(e.axis, ExchangeAxis::kTensor);
      lines.push_back(op.name + " " + kPlaces[static_cast<std::size_t>(e.place)] + ": " +
                      std::string(ToString(e.op)) + " " + std::to_string(e.bytes.value));
    }
  }
  return lines;
}

// ---- Sizes ----

TEST(LocalTransformer, DividesHeadsWidthAndVocabulary) {
  const LocalTransformer local = LocalTransformerOf(Llama(4));
  EXPECT_EQ(local.spec.heads, 8);
  EXPECT_EQ(local.spec.kv_heads, 2);
  EXPECT_EQ(local.spec.ffn_size, 14336 / 4);
  EXPECT_EQ(local.spec.padded_vocab(), 128256 / 4);
  EXPECT_EQ(local.tokens, 8192);
  EXPECT_EQ(local.stream_tokens, 2048);
}

// Fewer heads of keys than ranks: one each, shared.
TEST(LocalTransformer, RepeatsKeyHeads) {
  EXPECT_EQ(LocalTransformerOf(Llama(16)).spec.kv_heads, 1);
  EXPECT_EQ(LocalTransformerOf(Llama(8)).spec.kv_heads, 1);
}

// Megatron-LM pads the vocabulary to make_vocab_size_divisible_by (128) x ranks: GPT-2's 50257 rows
// become 50304 for one rank, 51200 for eight.
TEST(LocalTransformer, PadsTheVocabulary) {
  TransformerSpec spec = testing::Gpt2();
  spec.vocab_multiple = 128;
  EXPECT_EQ(PaddedVocabulary(spec, 1), 50304);
  EXPECT_EQ(PaddedVocabulary(spec, 8), 51200);
}

TEST(LocalTransformer, ContextCutsTheSequence) {
  JobSpec job = Llama(2);
  job.plan.context_parallel = 4;
  const LocalTransformer local = LocalTransformerOf(job);
  EXPECT_EQ(local.tokens, 2048);
  EXPECT_EQ(local.stream_tokens, 1024);
  EXPECT_EQ(BuildWorkload(job).tokens, 8192);  // of the replica
}

// All matrices are cut, norms are whole: (parameters - norms) / t + norms.
TEST(TensorParallel, ParametersAreCutButForNorms) {
  constexpr std::int64_t kNorms = (2 * 32 + 1) * 4096;
  const Workload workload = BuildWorkload(Llama(8));
  EXPECT_EQ(workload.parameter_count(), (8030261248 - kNorms) / 8 + kNorms);
  std::int64_t replicated = 0;
  for (const ParameterTensor& p : workload.parameters) {
    if (p.is_tensor_replicated) replicated += p.elements;
  }
  EXPECT_EQ(replicated, kNorms);
}

// Without sequence parallelism every rank computes the norms' gradients whole: nobody adds them up.
TEST(TensorParallel, NothingIsReplicatedWithoutSequenceParallelism) {
  for (const ParameterTensor& p : BuildWorkload(Llama(8, false)).parameters) {
    EXPECT_FALSE(p.is_tensor_replicated) << p.name;
  }
}

// Row-parallel biases are added behind the sum, where the sequence is cut.
TEST(TensorParallel, RowBiasesAreReplicated) {
  const Workload workload = BuildWorkload(Gpt(4, true));
  for (const ParameterTensor& p : workload.parameters) {
    const bool is_row_bias = p.name.find("c_proj.bias") != std::string::npos;
    const bool is_norm = p.name.find(".ln_") != std::string::npos;
    EXPECT_EQ(p.is_tensor_replicated, is_row_bias || is_norm) << p.name;
    EXPECT_TRUE(!is_row_bias || p.elements == kH) << p.name;
  }
}

TEST(TensorParallel, ProductsShrinkByTheRanks) {
  const Workload whole = BuildWorkload(Llama(1));
  JobSpec job = Llama(8);
  job.plan.strategy = "fsdp2";  // whose products are separate as those of one rank are
  const Workload cut = BuildWorkload(job);
  for (const char* name : {"q", "k", "v", "attention", "proj", "gate", "up", "down"}) {
    EXPECT_DOUBLE_EQ(OperatorNamed(cut, "layers.3", name).forward.flops.value * 8,
                     OperatorNamed(whole, "layers.3", name).forward.flops.value)
        << name;
  }
  EXPECT_EQ(OperatorNamed(cut, "layers.3", "norm1").forward.bytes.value * 8,
            OperatorNamed(whole, "layers.3", "norm1").forward.bytes.value);
}

// A pipeline hands over what the next stage's norm reads: s b h, cut under sequence parallelism.
TEST(TensorParallel, StreamBetweenUnits) {
  EXPECT_EQ(UnitNamed(BuildWorkload(Gpt(4, true)), "layers.0").output, Bytes{2 * kSbh / 4});
  EXPECT_EQ(UnitNamed(BuildWorkload(Gpt(4, false)), "layers.0").output, Bytes{2 * kSbh});
}

// ---- Activation memory: Korthikanti et al., bytes per layer ----

TEST(TensorParallelMemory, TensorParallel) {
  for (const std::int64_t t : {2, 4, 6}) {
    EXPECT_EQ(KeptByLayer(BuildWorkload(Gpt(t, false, AttentionKind::kUnfused))),
              Bytes{10 * kSbh + 24 * kSbh / t + kScores / t});
    EXPECT_EQ(KeptByLayer(BuildWorkload(Gpt(t, false))), Bytes{10 * kSbh + 24 * kSbh / t});
  }
}

TEST(TensorParallelMemory, WithSequenceParallelism) {
  for (const std::int64_t t : {2, 4}) {
    EXPECT_EQ(KeptByLayer(BuildWorkload(Gpt(t, true, AttentionKind::kUnfused))),
              Bytes{(34 * kSbh + kScores) / t});
    EXPECT_EQ(KeptByLayer(BuildWorkload(Gpt(t, true))), Bytes{34 * kSbh / t});
  }
}

// Selective recomputation of attention drops the scores; full keeps the layer's input, 2 s b h / t.
TEST(TensorParallelMemory, Recomputation) {
  JobSpec job = Gpt(4, true, AttentionKind::kUnfused);
  job.recompute.granularity = RecomputeGranularity::kSelective;
  EXPECT_EQ(KeptByLayer(BuildWorkload(job)), Bytes{34 * kSbh / 4});
  job.recompute.granularity = RecomputeGranularity::kFull;
  EXPECT_EQ(KeptByLayer(BuildWorkload(job)), Bytes{2 * kSbh / 4});
  job.plan.tensor.sequence_parallel = false;
  EXPECT_EQ(KeptByLayer(BuildWorkload(job)), Bytes{2 * kSbh});
}

// ---- Exchanges: schedules.md of the reference, 5.4: s b h each ----

TEST(TensorParallelExchanges, OfALayer) {
  const std::string bytes = std::to_string(2 * kSbh);
  EXPECT_THAT(
      Exchanges(BuildWorkload(Gpt(4, true)), "layers.3"),
      ElementsAre(
          "qkv before forward: all_gather " + bytes, "qkv beside dgrad: all_gather " + bytes,
          "qkv beside wgrad: reduce_scatter " + bytes,
          "proj after forward: reduce_scatter " + bytes,
          "proj before backward: all_gather " + bytes, "fc1 before forward: all_gather " + bytes,
          "fc1 beside dgrad: all_gather " + bytes, "fc1 beside wgrad: reduce_scatter " + bytes,
          "fc2 after forward: reduce_scatter " + bytes,
          "fc2 before backward: all_gather " + bytes));
  EXPECT_THAT(Exchanges(BuildWorkload(Gpt(4, false)), "layers.3"),
              ElementsAre("qkv beside wgrad: all_reduce " + bytes,
                          "proj after forward: all_reduce " + bytes,
                          "fc1 beside wgrad: all_reduce " + bytes,
                          "fc2 after forward: all_reduce " + bytes));
  EXPECT_THAT(Exchanges(BuildWorkload(Gpt(1, true)), "layers.3"), IsEmpty());
}

// Megatron-LM's linear_qkv and linear_fc1 are one product each in a Llama, too: their collectives
// hide behind all of it.
TEST(TensorParallelExchanges, MegatronsProductsAreFused) {
  const std::string bytes = std::to_string(2 * 8192 * 4096);
  const Workload workload = BuildWorkload(Llama(8));
  EXPECT_THAT(
      Exchanges(workload, "layers.0"),
      ElementsAre(
          "qkv before forward: all_gather " + bytes, "qkv beside dgrad: all_gather " + bytes,
          "qkv beside wgrad: reduce_scatter " + bytes,
          "proj after forward: reduce_scatter " + bytes,
          "proj before backward: all_gather " + bytes, "fc1 before forward: all_gather " + bytes,
          "fc1 beside dgrad: all_gather " + bytes, "fc1 beside wgrad: reduce_scatter " + bytes,
          "fc2 after forward: reduce_scatter " + bytes,
          "fc2 before backward: all_gather " + bytes));
  // 32 query heads and twice 8 key heads of 128, gate and up of 14336: an eighth.
  const double tokens = 8192;
  EXPECT_DOUBLE_EQ(OperatorNamed(workload, "layers.0", "qkv").forward.flops.value,
                   2 * tokens * 4096 * (32 + 16) * 128 / 8);
  EXPECT_DOUBLE_EQ(OperatorNamed(workload, "layers.0", "fc1").forward.flops.value,
                   2 * tokens * 4096 * 2 * 14336 / 8);
}

// DTensor's q, k and v read one input: gathered before the first of them, in forward and in
// backward, where the last comes first; its gradient is summed before it is exchanged.
TEST(TensorParallelExchanges, ParallelLinearsShareThem) {
  const std::string bytes = std::to_string(2 * 8192 * 4096);
  JobSpec job = Llama(8);
  job.plan.strategy = "fsdp2";
  job.plan.tensor.regather_input = true;
  EXPECT_THAT(
      Exchanges(BuildWorkload(job), "layers.0"),
      ElementsAre(
          "q before forward: all_gather " + bytes, "q beside wgrad: reduce_scatter " + bytes,
          "v beside dgrad: all_gather " + bytes, "proj after forward: reduce_scatter " + bytes,
          "proj before backward: all_gather " + bytes, "gate before forward: all_gather " + bytes,
          "gate beside wgrad: reduce_scatter " + bytes, "up beside dgrad: all_gather " + bytes,
          "down after forward: reduce_scatter " + bytes,
          "down before backward: all_gather " + bytes));
}

// Megatron-LM scatters the embeddings at once where nothing is added to them, else sums them whole,
// adds the position table, and cuts the result.
TEST(TensorParallelExchanges, OfTheEmbedding) {
  const std::string llama = std::to_string(2 * 8192 * 4096), gpt = std::to_string(2 * kSbh);
  EXPECT_THAT(Exchanges(BuildWorkload(Llama(8)), "embedding"),
              ElementsAre("token_embedding after forward: reduce_scatter " + llama,
                          "token_embedding before backward: all_gather " + llama));
  EXPECT_THAT(Exchanges(BuildWorkload(Llama(8, false)), "embedding"),
              ElementsAre("token_embedding after forward: all_reduce " + llama));
  EXPECT_THAT(Exchanges(BuildWorkload(Gpt(4, true)), "embedding"),
              ElementsAre("token_embedding after forward: all_reduce " + gpt,
                          "position_embedding before backward: all_gather " + gpt));
}

// Three sums of a number per token in fp32, or all logits gathered.
TEST(TensorParallelExchanges, OfTheLoss) {
  const std::string numbers = std::to_string(4 * 8192);
  EXPECT_THAT(Exchanges(BuildWorkload(Llama(8)), "loss"),
              ElementsAre("cross_entropy after forward: all_reduce " + numbers,
                          "cross_entropy after forward: all_reduce " + numbers,
                          "cross_entropy after forward: all_reduce " + numbers));
  JobSpec job = Llama(8);
  job.plan.tensor.vocabulary_parallel_loss = false;
  const Workload gathered = BuildWorkload(job);
  EXPECT_THAT(Exchanges(gathered, "loss"), IsEmpty());
  EXPECT_EQ(Exchanges(gathered, "head").back(),
            "head after forward: all_gather " + std::to_string(2LL * 8192 * 128256));
  EXPECT_EQ(
      OperatorNamed(gathered, "loss", "cross_entropy").forward.bytes.value,
      8 * OperatorNamed(BuildWorkload(Llama(8)), "loss", "cross_entropy").forward.bytes.value);
}

}  // namespace
}  // namespace stepsim
