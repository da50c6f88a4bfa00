// The closed form against the equations of models/README.md (Korthikanti et al. for activations),
// parameter counts as their models' cards state them, and hand-made sums.
#include "models/memory/formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/memory/formula_activations.h"
#include "models/memory/formula_parameters.h"

namespace stepsim {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;

// ---- States ----

TEST(StateBytes, AreThoseOfTheTable) {
  const double d = 8;
  const auto total = [&](StateLayout layout) { return StateBytesPerParameter(layout, d).total(); };
  EXPECT_EQ(total(StateLayout::kFp32Ddp), 16);
  EXPECT_EQ(total(StateLayout::kMegatron), 18);
  EXPECT_EQ(total(StateLayout::kMegatronDistributed), 6 + 12 / d);
  EXPECT_EQ(total(StateLayout::kZero0), 16);
  EXPECT_EQ(total(StateLayout::kZero1), 4 + 12 / d);
  EXPECT_EQ(total(StateLayout::kZero2), 2 + 14 / d);
  EXPECT_EQ(total(StateLayout::kZero3), 16 / d);
  EXPECT_EQ(total(StateLayout::kFsdp2), 16 / d);
  // 4 bytes more than 16-bit accumulation, on every GPU (BigScience's log of 2022-02-28).
  EXPECT_EQ(total(StateLayout::kZero1Fp32Gradients) - total(StateLayout::kZero1), 4);
}

// ---- Parameters ----

FormulaJob Llama8b() {
  FormulaJob job;
  job.model = {
      .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256};
  job.states = StateLayout::kFsdp2;  // no padding of the vocabulary
  job.sequence = 8192;
  return job;
}

FormulaJob DeepSeek(std::int64_t layers, std::int64_t hidden, std::int64_t ffn, std::int64_t vocab,
                    ExpertMlp experts) {
  FormulaJob job;
  job.model = {.layers = layers,
               .hidden = hidden,
               .heads = 128,
               .kv_heads = 128,
               .ffn = ffn,
               .vocab = vocab};
  job.model.latent = LatentAttention{1536, 512, 128, 64, 128};
  job.model.experts = experts;
  job.sequence = 4096;
  return job;
}

double AllParameters(const FormulaJob& job) {
  const StageParameters parameters = ParametersOfStage(job, 0);
  return parameters.dense + parameters.experts;
}

TEST(StageParameters, OfPublishedModels) {
  EXPECT_EQ(AllParameters(Llama8b()), 8'030'261'248);
  FormulaJob bloom;  // 176,247,271,424 with the norm behind the embedding, which is not modelled
  bloom.model = {.layers = 70,
                 .hidden = 14336,
                 .heads = 112,
                 .kv_heads = 112,
                 .ffn = 57344,
                 .vocab = 250880,
                 .is_gated = false,
                 .is_tied = true};
  EXPECT_EQ(AllParameters(bloom), 176'247'271'424 - 2 * 14336);
  // "236B" and "671B": the papers print no more digits.
  EXPECT_NEAR(AllParameters(DeepSeek(60, 5120, 12288, 102400, {160, 6, 1536, 3072, 1})), 236e9,
              0.5e9);
  EXPECT_NEAR(AllParameters(DeepSeek(61, 7168, 18432, 129280, {256, 8, 2048, 2048, 3})), 671e9,
              0.5e9);
}

TEST(StageParameters, TensorParallelPeersHoldTheModelOnce) {
  FormulaJob job = Llama8b();
  const double whole = AllParameters(job);
  job.tensor_parallel = 4;
  // Norms are on every peer: 65 of 4096 elements.
  EXPECT_DOUBLE_EQ(4 * AllParameters(job), whole + 3 * 65 * 4096);
}

TEST(StageParameters, PipelineStagesAddUpToTheModel) {
  FormulaJob job = Llama8b();
  const double whole = AllParameters(job);
  job.pipeline_parallel = 5;  // 7, 7, 6, 6, 6 layers
  double sum = 0;
  for (std::int64_t stage = 0; stage < 5; ++stage) sum += ParametersOfStage(job, stage).dense;
  EXPECT_DOUBLE_EQ(sum, whole);
  EXPECT_EQ(LayersOfStage(job, 1).dense, 7);
  EXPECT_EQ(LayersOfStage(job, 2).dense, 6);
}

// A tied head on another GPU than the embedding is a second copy.
TEST(StageParameters, TheTiedHeadOfALastStageIsACopy) {
  FormulaJob job = Llama8b();
  job.model.is_tied = true;
  const double together = AllParameters(job);
  job.pipeline_parallel = 2;
  const double apart = ParametersOfStage(job, 0).dense + ParametersOfStage(job, 1).dense;
  EXPECT_DOUBLE_EQ(apart - together, 128256.0 * 4096);
}

TEST(StageParameters, EndsMayCountAsLayers) {
  FormulaJob job = Llama8b();
  job.model.layers = 106;
  job.pipeline_parallel = 12;  // 108 blocks, 9 each
  job.counts_ends_as_layers = true;
  EXPECT_EQ(LayersOfStage(job, 0).dense, 8);
  EXPECT_EQ(LayersOfStage(job, 5).dense, 9);
  EXPECT_EQ(LayersOfStage(job, 11).dense, 8);
}

TEST(StageParameters, MegatronPadsTheVocabulary) {
  FormulaJob job = Llama8b();
  job.model.vocab = 50257;
  job.states = StateLayout::kMegatron;
  EXPECT_EQ(VocabularyPerGpu(job), 50304);
  job.tensor_parallel = 8;
  EXPECT_EQ(VocabularyPerGpu(job), 51200.0 / 8);
}

TEST(StageParameters, ExpertsAreShardedOverTheirOwnPeers) {
  FormulaJob job = DeepSeek(4, 5120, 12288, 102400, {160, 6, 1536, 3072, 1});
  job.expert_parallel = 4;
  job.data_parallel = 8;
  EXPECT_EQ(ExpertShards(job), 2);
  EXPECT_EQ(DenseShards(job), 8);
  // 3 layers with experts, 40 of them each, three matrices of 5120 x 1536.
  EXPECT_DOUBLE_EQ(ParametersOfStage(job, 0).experts, 3.0 * 40 * 3 * 5120 * 1536);
}

// ---- Activations ----

struct Korthikanti : public ::testing::Test {
  Korthikanti() {
    job.model = {.layers = 96,
                 .hidden = 12288,
                 .heads = 96,
                 .kv_heads = 96,
                 .ffn = 4 * 12288,
                 .vocab = 50257,
                 .is_gated = false,
                 .is_tied = true};
    job.kernels = LayerKernels::kUnfused;
    job.states = StateLayout::kMegatron;
    job.loss = LossTensors::kVocabParallel;
    job.sequence = 2048;
    job.micro_batch = 4;
  }
  double Layer() const { return KeptLayerBytes(job, LayerKind::kDense); }
  FormulaJob job;
  double sbh = 2048.0 * 4 * 12288;
  double scores = 5.0 * 96 * 2048 / 12288;  // 5 a s / h
};

TEST_F(Korthikanti, NothingRecomputed) {
  EXPECT_DOUBLE_EQ(Layer(), sbh * (34 + scores));
  job.tensor_parallel = 8;
  EXPECT_DOUBLE_EQ(Layer(), sbh * (10 + 24.0 / 8 + scores / 8));
  job.has_sequence_parallel = true;
  EXPECT_DOUBLE_EQ(Layer(), sbh / 8 * (34 + scores));
}

TEST_F(Korthikanti, SelectiveRecomputeDropsTheScores) {
  job.kept = KeptActivations::kCoreAttentionRecomputed;
  job.tensor_parallel = 8;
  EXPECT_DOUBLE_EQ(Layer(), sbh * (10 + 24.0 / 8));
  job.has_sequence_parallel = true;
  EXPECT_DOUBLE_EQ(Layer(), 34 * sbh / 8);
}

TEST_F(Korthikanti, FullRecomputeKeepsTheInput) {
  job.kept = KeptActivations::kLayerInputs;
  job.tensor_parallel = 8;
  EXPECT_DOUBLE_EQ(Layer(), 2 * sbh);
  // One layer's full set during its backward, beside gradients of the widest tensors.
  EXPECT_GE(LayerWorkingSet(job, LayerKind::kDense), sbh * (8 + 24.0 / 8 + scores / 8));
}

TEST_F(Korthikanti, FirstStageOfPipelines) {
  job.pipeline_parallel = 4;
  job.micro_batches = 64;
  EXPECT_EQ(LiveMicrobatches(job, 0), 4);
  EXPECT_EQ(LiveMicrobatches(job, 3), 1);
  job.micro_batches = 2;
  EXPECT_EQ(LiveMicrobatches(job, 0), 2);
  job.micro_batches = 64;
  job.virtual_stages = 3;  // x (1 + (p-1)/(pv))
  EXPECT_DOUBLE_EQ(LiveMicrobatches(job, 0), 4 * (1 + 3.0 / 12));
}

// Each tensor of a Llama layer on one of two tensor- and sequence-parallel GPUs: 8 tokens, 4 of
// them in scattered regions, 2 of 4 heads of width 2, 1 of 2 key heads, 8 of 16 MLP columns.
TEST(LayerTensors, OfAFusedLlamaLayer) {
  FormulaJob job;
  job.model = {.layers = 1, .hidden = 8, .heads = 4, .kv_heads = 2, .ffn = 16, .vocab = 10};
  job.sequence = 4;
  job.micro_batch = 2;
  job.tensor_parallel = 2;
  job.has_sequence_parallel = true;
  const double norm = 2 * 4 * 8 + 4 * 4 + 2 * 4 * 8;
  const double attention = 2 * 8 * (4 + 2 + 2) + 2 * 8 * 4 + 4 * 8 * 2;
  const double mlp = 2 * 8 * 16 + 2 * 8 * 8;
  EXPECT_EQ(TotalBytes(LayerTensors(job, LayerKind::kDense)), 2 * norm + attention + mlp);
}

// Tokens of 6 experts each, MLA heads of 192 and 128: the widths of DeepSeek-V2, 4096 tokens.
TEST(LayerTensors, OfAnExpertLayer) {
  const FormulaJob job = DeepSeek(4, 5120, 12288, 102400, {160, 6, 1536, 3072, 1});
  const double norms = 2 * (2 + 4.0 / 5120 + 2) * 5120;
  const double compressed = 2 * 2 * 1536 + 2 * (2 * 512 + 64);
  const double attention = 2 * 128 * (192 + 192 + 128 + 128) + 4 * 128;
  const double shared = 3 * 2 * 3072, routed = 6 * 2 * (5120 + 3 * 1536);
  EXPECT_DOUBLE_EQ(TotalBytes(LayerTensors(job, LayerKind::kExperts)),
                   4096 * (norms + compressed + attention + shared + routed));
}

// Outputs of products 1, 3, 5 (and 7 where recompute caches it), of attention, and the input.
TEST(KeptLayerBytes, OfTorchtitansSelectiveRecompute) {
  FormulaJob job = Llama8b();
  job.kept = KeptActivations::kEverySecondProduct;
  const double kept = 8192.0 * (2 * (4096 + 4096 + 1024 + 4096 + 14336) + 4 * 32);
  EXPECT_EQ(KeptLayerBytes(job, LayerKind::kDense), kept);
  job.kernels = LayerKernels::kEager;
  EXPECT_EQ(KeptLayerBytes(job, LayerKind::kDense), kept + 8192.0 * 2 * 4096);
}

TEST(LossMemory, CountsTensorsPerLogit) {
  FormulaJob job = Llama8b();
  const double logits = 8192.0 * 128256, head = 4 * 8192.0 * 4096;
  const auto blocks = [&](LossTensors loss) {
    job.loss = loss;
    return (LossMemory(job).blocks - head) / logits;
  };
  EXPECT_THAT(blocks(LossTensors::kInPlace), DoubleEq(2));
  EXPECT_THAT(blocks(LossTensors::kCompiled), DoubleEq(4));
  EXPECT_THAT(blocks(LossTensors::kVocabParallel), DoubleEq(10));
  EXPECT_THAT(blocks(LossTensors::kEager), DoubleEq(14));
  EXPECT_THAT(blocks(LossTensors::kDTensorParallel), DoubleEq(18));
}

// ---- Whole estimates ----

TEST(EstimateMemory, PartsSumToTheTotal) {
  for (const MemoryFigure figure :
       {MemoryFigure::kAllocated, MemoryFigure::kReserved, MemoryFigure::kDevice}) {
    FormulaJob job = Llama8b();
    job.figure = figure;
    const MemoryEstimate estimate = EstimateMemory(job);
    double sum = 0;
    for (const auto& [name, bytes] : estimate.parts) sum += bytes;
    EXPECT_DOUBLE_EQ(sum, estimate.total);
  }
}

double Part(const MemoryEstimate& estimate, const std::string& name) {
  for (const auto& [part, bytes] : estimate.parts) {
    if (part == name) return bytes;
  }
  return -1;
}

// FSDP2 on 8 GPUs: 4 + 8 bytes per parameter in shards; the root's matrices and three sets of one
// layer (two gather buffers, one unsharded) in 16 bits; gradient shards are smaller than
// activations.
TEST(EstimateMemory, OfFsdp2) {
  FormulaJob job = Llama8b();
  job.data_parallel = 8;
  const double layer = 4096.0 * (4096 + 2 * 1024 + 4096 + 3 * 14336 + 2);
  const double root = 2.0 * 128256 * 4096;
  MemoryEstimate estimate = EstimateMemory(job);
  EXPECT_DOUBLE_EQ(Part(estimate, "parameters") + Part(estimate, "optimizer_states"),
                   12 * 8'030'261'248.0 / 8);
  EXPECT_EQ(Part(estimate, "gradients"), 0);
  EXPECT_DOUBLE_EQ(Part(estimate, "unsharded_parameters"), 2 * root + 3 * 2 * layer);
  // Reserved memory keeps the gather stream's largest buffer, the root's, and the gradients'.
  job.figure = MemoryFigure::kReserved;
  estimate = EstimateMemory(job);
  EXPECT_DOUBLE_EQ(Part(estimate, "gradients"), 4 * 8'030'261'248.0 / 8);
  EXPECT_DOUBLE_EQ(Part(estimate, "unsharded_parameters"), 2 * root + 2 * layer + 2 * root);
}

// DeepSpeed's ZeRO-1 around the optimizer: P parameters on each of 4 replicas, a quarter owned.
TEST(EstimateMemory, OfDeepSpeedsFlatTensors) {
  FormulaJob job;
  job.model = {.layers = 4,
               .hidden = 8192,
               .heads = 64,
               .kv_heads = 64,
               .ffn = 32768,
               .vocab = 51200,
               .is_gated = false,
               .is_tied = true};
  job.states = StateLayout::kZero1;
  job.kernels = LayerKernels::kUnfused;
  job.kept = KeptActivations::kLayerInputs;
  job.loss = LossTensors::kVocabParallel;
  job.figure = MemoryFigure::kDevice;
  job.sequence = 2048;
  job.data_parallel = 4;
  const double p = AllParameters(job), matrix = 51200.0 * 8192;
  const double flat = 2 * 5e8 + 2 * 5e8 + 6 * p / 4 + 8 * matrix;
  const double layer = LayerWorkingSet(job, LayerKind::kDense);
  ASSERT_GT(layer, LossMemory(job).blocks);
  EXPECT_DOUBLE_EQ(Part(EstimateMemory(job), "working_set"), layer + flat);
  EXPECT_EQ(Part(EstimateMemory(job), "context"), 1573.0 * (1 << 20));
}

TEST(EstimateMemory, IsTheFullestStage) {
  FormulaJob job = Llama8b();
  job.states = StateLayout::kMegatron;
  job.pipeline_parallel = 4;
  job.micro_batches = 8;
  const MemoryEstimate most = EstimateMemory(job);
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_LE(EstimateStage(job, stage).total, most.total);
  }
  EXPECT_EQ(EstimateStage(job, most.stage).total, most.total);
}

// Per-rank peaks (torch.cuda.max_memory_allocated, MiB) that SimuMax publishes for pipelines of two
// stages on B200: first stage, last stage. Only the larger is in the table of published rows.
struct TwoStages {
  FormulaJob job;
  double first, last;
};

std::vector<TwoStages> PublishedStages() {
  FormulaJob llama70;
  llama70.model = {
      .layers = 12, .hidden = 8192, .heads = 64, .kv_heads = 8, .ffn = 28672, .vocab = 128256};
  FormulaJob llama405;
  llama405.model = {
      .layers = 4, .hidden = 16384, .heads = 128, .kv_heads = 16, .ffn = 53248, .vocab = 128256};
  FormulaJob v2 = DeepSeek(4, 5120, 12288, 102400, {160, 6, 1536, 3072, 1});
  FormulaJob v3 = DeepSeek(4, 7168, 18432, 129280, {256, 8, 2048, 2048, 1});
  v2.expert_parallel = v3.expert_parallel = 4;
  std::vector<TwoStages> runs = {{llama70, 68149.2, 64479.5},
                                 {llama405, 88688.8, 89173.4},
                                 {v2, 32343.4, 45775.8},
                                 {v3, 72948.5, 116737.9}};
  for (TwoStages& run : runs) {
    run.job.sequence = 4096;
    run.job.pipeline_parallel = 2;
    run.job.data_parallel = 4;
    run.job.micro_batches = 4;
  }
  return runs;
}

TEST(EstimateMemory, MatchesPublishedPeaksOfBothStages) {
  constexpr double kMib = 1 << 20;
  for (const TwoStages& run : PublishedStages()) {
    EXPECT_THAT(EstimateStage(run.job, 0).total / kMib / run.first, DoubleNear(1, 0.02));
    EXPECT_THAT(EstimateStage(run.job, 1).total / kMib / run.last, DoubleNear(1, 0.02));
  }
}

}  // namespace
}  // namespace stepsim
