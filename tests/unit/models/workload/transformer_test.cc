#include "models/workload/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/workload/kernel_work.h"
#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using testing::AutocastJobOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::JobOf;
using ::testing::SizeIs;

std::vector<std::string> OperatorNames(const ModelUnit& unit) {
  std::vector<std::string> names;
  for (const Operator& op : unit.operators) names.push_back(op.name);
  return names;
}

std::vector<std::string> UnitNames(const Workload& workload) {
  std::vector<std::string> names;
  for (const ModelUnit& unit : workload.units) names.push_back(unit.name);
  return names;
}

const ModelUnit& UnitNamed(const Workload& workload, const std::string& name) {
  const auto unit = std::find_if(workload.units.begin(), workload.units.end(),
                                 [&](const ModelUnit& u) { return u.name == name; });
  EXPECT_NE(unit, workload.units.end()) << name;
  return *unit;
}

const Operator& OperatorNamed(const ModelUnit& unit, const std::string& name) {
  const auto op = std::find_if(unit.operators.begin(), unit.operators.end(),
                               [&](const Operator& o) { return o.name == name; });
  EXPECT_NE(op, unit.operators.end()) << unit.name << "." << name;
  return *op;
}

// Names of the tensors, registration order, those with `prefix`.
std::vector<std::string> Registered(const Workload& workload, const std::string& prefix) {
  std::vector<std::string> names;
  for (const ParameterTensor& parameter : workload.parameters) {
    if (parameter.name.rfind(prefix, 0) == 0) names.push_back(parameter.name.substr(prefix.size()));
  }
  return names;
}

std::vector<std::string> Arrivals(const Workload& workload) {
  std::vector<std::string> names;
  for (const std::int32_t index : workload.ArrivalOrder()) {
    names.push_back(workload.parameters[static_cast<std::size_t>(index)].name);
  }
  return names;
}

TransformerSpec Shallow(TransformerSpec spec) {
  spec.layers = 2;
  return spec;
}

TEST(Transformer, GptRunsItsOperatorsInForwardOrder) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::Gpt2()), 2, 64));
  EXPECT_THAT(UnitNames(workload),
              ElementsAre("embedding", "layers.0", "layers.1", "final_norm", "head", "loss"));
  EXPECT_THAT(OperatorNames(workload.units[0]),
              ElementsAre("token_embedding", "position_embedding", "dropout"));
  EXPECT_THAT(OperatorNames(workload.units[1]),
              ElementsAre("norm1", "qkv", "attention", "proj", "dropout1", "residual1", "norm2",
                          "fc1", "activation", "fc2", "dropout2", "residual2"));
}

TEST(Transformer, LlamaSplitsQkvAndGatesItsMlp) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::Llama32Of3b()), 1, 64));
  EXPECT_THAT(OperatorNames(workload.units[1]),
              ElementsAre("norm1", "q", "k", "v", "rotary", "attention", "proj", "residual1",
                          "norm2", "gate", "up", "activation", "down", "residual2"));
}

TEST(Transformer, BertNormalisesAfterTheResidual) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::BertBasePretraining()), 1, 64));
  EXPECT_THAT(UnitNames(workload), ElementsAre("embedding", "layers.0", "layers.1", "pooler",
                                               "mlm_transform", "head", "loss"));
  EXPECT_THAT(OperatorNames(workload.units[1]),
              ElementsAre("q", "k", "v", "attention", "proj", "dropout1", "residual1", "norm1",
                          "fc1", "activation", "fc2", "dropout2", "residual2", "norm2"));
}

TEST(Transformer, EncoderWithoutMaskedLanguageHeadEndsAtThePooler) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::BertBase()), 1, 64));
  EXPECT_EQ(workload.units.back().name, "pooler");
}

// Names and order: state_dict() of Hugging Face's GPT2LMHeadModel, LlamaForCausalLM, BertModel.
TEST(Transformer, RegistersTensorsAsHuggingFaceDoes) {
  const Workload gpt = BuildWorkload(JobOf(Shallow(testing::Gpt2()), 1, 64));
  EXPECT_THAT(
      Registered(gpt, "transformer.h.1."),
      ElementsAre("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias",
                  "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias",
                  "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"));
  EXPECT_EQ(gpt.parameters.front().name, "transformer.wte.weight");
  EXPECT_EQ(gpt.parameters.back().name, "transformer.ln_f.bias");  // the head is tied

  const Workload llama = BuildWorkload(JobOf(Shallow(testing::Llama3Of8b()), 1, 64));
  EXPECT_THAT(Registered(llama, "model.layers.0."),
              ElementsAre("self_attn.q_proj.weight", "self_attn.k_proj.weight",
                          "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                          "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
                          "input_layernorm.weight", "post_attention_layernorm.weight"));
  EXPECT_EQ(llama.parameters.back().name, "lm_head.weight");

  const Workload bert = BuildWorkload(JobOf(Shallow(testing::BertBase()), 1, 64));
  EXPECT_THAT(Registered(bert, "bert.embeddings."),
              ElementsAre("word_embeddings.weight", "position_embeddings.weight",
                          "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias"));
  EXPECT_THAT(
      Registered(bert, "bert.encoder.layer.1.attention."),
      ElementsAre("self.query.weight", "self.query.bias", "self.key.weight", "self.key.bias",
                  "self.value.weight", "self.value.bias", "output.dense.weight",
                  "output.dense.bias", "output.LayerNorm.weight", "output.LayerNorm.bias"));
}

TEST(Transformer, GradientsArriveInReverseOrderOfUse) {
  TransformerSpec spec = testing::Llama3Of8b();
  spec.layers = 1;
  EXPECT_THAT(
      Arrivals(BuildWorkload(JobOf(spec, 1, 64))),
      ElementsAre(
          "lm_head.weight", "model.norm.weight", "model.layers.0.mlp.down_proj.weight",
          "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_proj.weight",
          "model.layers.0.post_attention_layernorm.weight",
          "model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.v_proj.weight",
          "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.q_proj.weight",
          "model.layers.0.input_layernorm.weight", "model.embed_tokens.weight"));
}

// GPT-2 registers in order of use, so that arrival is the exact reverse; the tied table comes last
// although the head's part of its gradient was the first thing computed.
TEST(Transformer, TiedTableArrivesLast) {
  for (const JobSpec& job :
       {JobOf(Shallow(testing::Gpt2()), 1, 64), AutocastJobOf(Shallow(testing::Gpt2()), 1, 64)}) {
    const Workload workload = BuildWorkload(job);
    const std::vector<std::int32_t> order = workload.ArrivalOrder();
    ASSERT_EQ(order.size(), workload.parameters.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(order[i], static_cast<std::int32_t>(order.size() - 1 - i));
    }
    EXPECT_THAT(UnitNamed(workload, "head").operators.back().backward_weight, SizeIs(1));
  }
}

// A parameter that never becomes ready would hang DDP; one that does so twice would break it.
TEST(Transformer, EveryParameterBecomesReadyExactlyOnce) {
  for (const auto& model : testing::PublishedModels()) {
    for (const JobSpec& job :
         {JobOf(Shallow(model.spec), 1, 64), AutocastJobOf(Shallow(model.spec), 1, 64)}) {
      const Workload workload = BuildWorkload(job);
      std::vector<std::int32_t> order = workload.ArrivalOrder();
      ASSERT_EQ(order.size(), workload.parameters.size()) << model.name;
      std::sort(order.begin(), order.end());
      for (std::size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(order[i], static_cast<std::int32_t>(i)) << model.name;
      }
    }
  }
}

TEST(Transformer, OperatorNamesAreUniqueWithinAUnit) {
  for (const auto& model : testing::PublishedModels()) {
    const Workload workload = BuildWorkload(AutocastJobOf(Shallow(model.spec), 1, 64));
    for (const ModelUnit& unit : workload.units) {
      std::vector<std::string> names = OperatorNames(unit);
      std::sort(names.begin(), names.end());
      EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << unit.name;
    }
  }
}

// y[T,out] = x[T,in] W: dgrad gives x's shape and sums over out, wgrad gives W's and sums over T.
TEST(Transformer, LinearBackwardIsInputThenWeightThenBias) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::Gpt2()), 2, 64));
  const Operator& fc1 = OperatorNamed(workload.units[1], "fc1");
  EXPECT_EQ(fc1.forward, GemmWork(DType::kBf16, 128, 3072, 768));
  EXPECT_THAT(fc1.backward_input,
              ElementsAre(GemmWork(DType::kBf16, 128, 768, 3072, Pass::kInputGradient)));
  ASSERT_THAT(fc1.backward_weight, SizeIs(2));
  EXPECT_EQ(fc1.backward_weight[0], GemmWork(DType::kBf16, 3072, 768, 128, Pass::kWeightGradient));
  EXPECT_EQ(fc1.backward_weight[1].bytes, Bytes{2 * (128 * 3072 + 3072)});  // sums dy over T
}

// x feeds q, k and v: three gradients, two additions. In BERT the residual adds a fourth.
TEST(Transformer, SharedInputsAddUpTheirGradients) {
  const auto additions = [](const ModelUnit& unit) {
    std::size_t count = 0;
    for (const char* name : {"q", "k", "v"}) {
      count += OperatorNamed(unit, name).backward_input.size() - 1;
    }
    return count;
  };
  const Workload llama = BuildWorkload(JobOf(Shallow(testing::Llama3Of8b()), 1, 64));
  EXPECT_EQ(additions(llama.units[1]), 2u);
  EXPECT_THAT(OperatorNamed(llama.units[1], "norm1").backward_input, SizeIs(2));
  const Workload bert = BuildWorkload(JobOf(Shallow(testing::BertBase()), 1, 64));
  EXPECT_EQ(additions(bert.units[1]), 3u);
  EXPECT_THAT(OperatorNamed(bert.units[1], "norm1").backward_input, SizeIs(1));
}

TEST(Transformer, TokenTableGetsADenseGradient) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::Gpt2()), 2, 64));
  const Operator& tokens = workload.units[0].operators[0];
  EXPECT_THAT(tokens.backward_input, IsEmpty());
  const std::int64_t table = 50257 * 768 * 2;
  const std::int64_t rows = 128 * 768 * 2;
  ASSERT_THAT(tokens.backward_weight, SizeIs(3));
  EXPECT_EQ(tokens.backward_weight[0].bytes, Bytes{table});               // cleared
  EXPECT_EQ(tokens.backward_weight[1].bytes, Bytes{128 * 8 + 3 * rows});  // ids, dy, += rows
  EXPECT_EQ(tokens.backward_weight[2].bytes, Bytes{3 * table});           // the tied head's part
  const Workload untied = BuildWorkload(JobOf(Shallow(testing::Llama3Of8b()), 1, 64));
  EXPECT_THAT(untied.units[0].operators[0].backward_weight, SizeIs(2));
}

TEST(Transformer, AutocastCastsEachWeightAndItsGradient) {
  const Workload workload = BuildWorkload(AutocastJobOf(Shallow(testing::Gpt2()), 2, 64));
  const ModelUnit& layer = workload.units[1];
  EXPECT_THAT(OperatorNames(layer),
              ElementsAre("norm1", "qkv.input_cast", "qkv.cast", "qkv", "attention", "proj.cast",
                          "proj", "dropout1", "residual1", "norm2", "fc1.input_cast", "fc1.cast",
                          "fc1", "activation", "fc2.cast", "fc2", "dropout2", "residual2"));
  const Operator& cast = OperatorNamed(layer, "fc1.cast");
  const std::int64_t elements = 768 * 3072 + 3072;
  EXPECT_EQ(cast.forward.bytes, Bytes{(4 + 2) * elements});
  EXPECT_EQ(cast.forward.kernels, 2);  // weight, bias
  ASSERT_THAT(cast.backward_weight, SizeIs(1));
  EXPECT_EQ(cast.backward_weight[0].bytes, Bytes{(2 + 4) * elements});
  EXPECT_EQ(cast.saved, Bytes{2 * elements});
  EXPECT_THAT(cast.parameters_ready, SizeIs(2));
  const Operator& fc1 = OperatorNamed(layer, "fc1");
  EXPECT_EQ(fc1.forward, GemmWork(DType::kBf16, 128, 3072, 768));
  EXPECT_THAT(fc1.parameters_ready, IsEmpty());
}

TEST(Transformer, SinglePrecisionHasNothingToCast) {
  for (const DType compute : {DType::kFp32, DType::kTf32}) {
    JobSpec job = JobOf(Shallow(testing::Gpt2()), 1, 64, DType::kFp32);
    job.precision.compute = compute;  // tf32 is fp32 in memory
    const Workload workload = BuildWorkload(job);
    EXPECT_THAT(workload.units[1].operators, SizeIs(12));
    EXPECT_EQ(OperatorNamed(workload.units[1], "qkv").forward.dtype, compute);
    EXPECT_EQ(OperatorNamed(workload.units[1], "norm1").forward.bytes, Bytes{2 * 4 * 64 * 768});
  }
}

TEST(Transformer, Fp8TouchesOnlyTheLinears) {
  JobSpec job = AutocastJobOf(Shallow(testing::Llama3Of8b()), 1, 64);
  job.precision.compute = DType::kFp8;
  const Workload workload = BuildWorkload(job);
  const ModelUnit& layer = workload.units[1];
  EXPECT_EQ(OperatorNamed(layer, "up").forward,
            GemmWork(DType::kFp8, DType::kBf16, {64, 14336, 4096}, Pass::kForward));
  EXPECT_EQ(OperatorNamed(layer, "attention").forward.dtype, DType::kBf16);
  EXPECT_EQ(OperatorNamed(layer, "up.cast").forward.bytes, Bytes{(4 + 1) * 4096LL * 14336});
  EXPECT_EQ(OperatorNamed(layer, "up.cast").backward_weight[0].bytes,
            Bytes{(2 + 4) * 4096LL * 14336});
}

// Transformer Engine's products are fp8, and so are their weights with fp8_param_gather: nothing is
// cast. The head is not one of them.
TEST(Transformer, MegatronKeepsFp8Weights) {
  JobSpec job = JobOf(Shallow(testing::Llama3Of8b()), 1, 64);
  job.plan.strategy = "megatron";
  job.plan.megatron.use_distributed_optimizer = job.plan.megatron.fp8_param_gather = true;
  job.precision.compute = DType::kFp8;
  const Workload workload = BuildWorkload(job);
  EXPECT_THAT(OperatorNames(workload.units[1]),
              ElementsAre("norm1", "qkv", "rotary", "attention", "proj", "residual1", "norm2",
                          "fc1", "activation", "fc2", "residual2"));
  EXPECT_EQ(OperatorNamed(workload.units[1], "fc1").forward.dtype, DType::kFp8);
  std::int64_t fp8 = 0;
  for (const ParameterTensor& p : workload.parameters) fp8 += p.is_fp8 ? p.elements : 0;
  EXPECT_EQ(fp8, 2 * (4096LL * 4096 * 2 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336));
  const auto head = std::find_if(workload.units.begin(), workload.units.end(),
                                 [](const ModelUnit& unit) { return unit.name == "head"; });
  EXPECT_EQ(OperatorNamed(*head, "head").forward.dtype, DType::kBf16);
}

TEST(Transformer, LossWorksInSinglePrecision) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::Llama3Of8b()), 1, 64));
  const Operator& loss = UnitNamed(workload, "loss").operators[0];
  const std::int64_t logits = 64 * 128256;
  EXPECT_EQ(loss.forward.bytes, Bytes{logits * (2 + 4 + 4 + 4)});  // widen, log-softmax
  ASSERT_THAT(loss.backward_input, SizeIs(1));
  EXPECT_EQ(loss.backward_input[0].bytes, Bytes{logits * (4 + 4 + 4 + 4 + 4 + 2)});
  EXPECT_EQ(loss.saved, Bytes{logits * 4});
}

// `loss` sets its kernels apart from the others: fp32 logits are saved where it is eager.
TEST(Transformer, TheLossMayRunUnlikeTheOtherKernels) {
  JobSpec job = JobOf(Shallow(testing::Llama3Of8b()), 1, 64);
  job.kernels = KernelMode::kCompiled;
  const auto saved = [&](LossMode mode) {
    job.loss = mode;
    const Workload workload = BuildWorkload(job);
    return UnitNamed(workload, "loss").operators[0].saved;
  };
  EXPECT_EQ(saved(LossMode::kAsKernels), saved(LossMode::kCompiled));
  EXPECT_EQ(saved(LossMode::kEager), saved(LossMode::kCompiled) * 2);  // fp32 against 16 bit
}

// Autocast leaves sums and norms in fp32, so the residual stream is fp32 and a linear behind a norm
// casts its input: b = 2, s = 64, h = 768; every count is a read or a write of one element.
TEST(Transformer, AutocastKeepsTheResidualStreamInSinglePrecision) {
  const Workload workload = BuildWorkload(AutocastJobOf(Shallow(testing::Gpt2()), 2, 64));
  const ModelUnit& layer = workload.units[1];
  const std::int64_t elements = 128 * 768;
  const Operator& norm = OperatorNamed(layer, "norm1");
  EXPECT_EQ(norm.forward.bytes, Bytes{(4 + 4) * elements});  // fp32 in, fp32 out
  EXPECT_EQ(norm.saved, Bytes{4 * elements});
  const Operator& cast = OperatorNamed(layer, "qkv.input_cast");
  EXPECT_EQ(cast.forward.bytes, Bytes{(4 + 2) * elements});
  ASSERT_THAT(cast.backward_input, SizeIs(1));
  EXPECT_EQ(cast.backward_input[0].bytes, Bytes{(2 + 4) * elements});
  const Operator& residual = OperatorNamed(layer, "residual1");
  EXPECT_EQ(residual.forward.bytes, Bytes{(2 + 4 + 4) * elements});  // bf16 branch, fp32 stream
  ASSERT_THAT(residual.backward_input, SizeIs(1));  // the branch's gradient back to bf16
  EXPECT_EQ(residual.backward_input[0].bytes, Bytes{(4 + 2) * elements});
}

// Each of q, k and v casts the norm's output for itself and keeps its copy.
TEST(Transformer, AutocastCastsOncePerLinear) {
  const Workload workload = BuildWorkload(AutocastJobOf(Shallow(testing::Llama3Of8b()), 1, 64));
  const ModelUnit& layer = workload.units[1];
  for (const char* name : {"q", "k", "v", "gate", "up"}) {
    EXPECT_EQ(OperatorNamed(layer, name + std::string(".input_cast")).forward.kernels, 1) << name;
    EXPECT_EQ(OperatorNamed(layer, name).saved, Bytes{2 * 64 * 4096}) << name;
  }
}

JobSpec WithKernels(JobSpec job, KernelMode mode) {
  job.kernels = mode;
  return job;
}

TEST(Transformer, OnlyEagerCastsOnItsOwn) {
  for (const KernelMode mode : {KernelMode::kCompiled, KernelMode::kFused}) {
    const Workload workload =
        BuildWorkload(WithKernels(AutocastJobOf(Shallow(testing::Llama3Of8b()), 1, 64), mode));
    for (const std::string& name : OperatorNames(workload.units[1])) {
      EXPECT_EQ(name.find("input_cast"), std::string::npos) << name;
    }
  }
}

Bytes MemoryTraffic(const Workload& workload) {
  Bytes bytes;
  const auto add = [&](const ComputeWork& work) {
    if (work.compute_class == ComputeClass::kMemory) bytes += work.bytes;
  };
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) {
      add(op.forward);
      for (const ComputeWork& work : op.backward_input) add(work);
      for (const ComputeWork& work : op.backward_weight) add(work);
    }
  }
  return bytes;
}

TEST(Transformer, FusionNeverMovesMore) {
  for (const auto& model : testing::PublishedModels()) {
    for (const AttentionKind attention : {AttentionKind::kFlash, AttentionKind::kUnfused}) {
      JobSpec job = AutocastJobOf(Shallow(model.spec), 2, 64);
      job.attention = attention;
      const Bytes eager = MemoryTraffic(BuildWorkload(job));
      EXPECT_LT(MemoryTraffic(BuildWorkload(WithKernels(job, KernelMode::kFused))), eager);
      EXPECT_LT(MemoryTraffic(BuildWorkload(WithKernels(job, KernelMode::kCompiled))), eager);
    }
  }
}

// BERT's scores under autocast, b = 2, 12 heads, s = 64: scale 2 + 2, mask 2 + 2, to fp32 2 + 4,
// softmax 4 + 4, to bf16 4 + 2 bytes each.
TEST(Transformer, UnfusedAttentionSendsTheScoresThroughMemory) {
  JobSpec job = AutocastJobOf(Shallow(testing::BertBase()), 2, 64);
  job.attention = AttentionKind::kUnfused;
  const Workload workload = BuildWorkload(job);
  const ModelUnit& layer = workload.units[1];
  const std::int64_t scores = 2 * 12 * 64 * 64;
  const Operator& softmax = OperatorNamed(layer, "attention.softmax");
  EXPECT_EQ(softmax.forward.bytes, Bytes{(4 + 4 + 6 + 8 + 6) * scores});
  EXPECT_EQ(softmax.forward.kernels, 5);
  const Operator& product = OperatorNamed(layer, "attention.scores");
  EXPECT_EQ(product.forward,
            GemmWork(DType::kBf16, DType::kBf16, {64, 64, 64, 2 * 12}, Pass::kForward));
  ASSERT_THAT(product.backward_input, SizeIs(2));
  EXPECT_EQ(OperatorNamed(layer, "attention.dropout").saved, Bytes{scores});
}

TEST(Transformer, UnfusedProductsRunInTf32Too) {
  JobSpec job = JobOf(Shallow(testing::BertBase()), 2, 64, DType::kFp32);
  job.attention = AttentionKind::kUnfused;
  job.precision.compute = DType::kTf32;
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(OperatorNamed(workload.units[1], "attention.context").forward.dtype, DType::kTf32);
}

// Korthikanti et al.: the unfused scores keep 5 a s^2 b bytes: softmax 2, mask 1, dropout 2.
TEST(Transformer, UnfusedAttentionKeepsFiveBytesPerScore) {
  JobSpec job = JobOf(Shallow(testing::Gpt2()), 2, 64);
  const Bytes flash = BuildWorkload(job).saved_bytes();
  job.attention = AttentionKind::kUnfused;
  EXPECT_EQ(BuildWorkload(job).saved_bytes() - flash, Bytes{2 * 5 * 12 * 64 * 64 * 2});
}

TEST(Transformer, CountsSamplesAndTokens) {
  const Workload workload = BuildWorkload(JobOf(Shallow(testing::Gpt2()), 3, 64));
  EXPECT_EQ(workload.samples, 3);
  EXPECT_EQ(workload.tokens, 192);
}

}  // namespace
}  // namespace stepsim
