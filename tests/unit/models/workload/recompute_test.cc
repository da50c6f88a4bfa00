#include "models/workload/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/workload/model_flops.h"
#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::JobOf;
using ::testing::SizeIs;

constexpr std::int64_t kB = 4, kS = 1024, kH = 768, kA = 12;  // GPT-2
constexpr std::int64_t kSbh = kS * kB * kH;

JobSpec Gpt(AttentionKind attention = AttentionKind::kFlash) {
  JobSpec job = JobOf(testing::Gpt2(), kB, kS);
  job.kernels = KernelMode::kFused;
  job.attention = attention;
  return job;
}

JobSpec Full(JobSpec job) {
  job.recompute.granularity = RecomputeGranularity::kFull;
  return job;
}

JobSpec Selective(JobSpec job, RecomputePolicy policy = RecomputePolicy::kModules) {
  job.recompute.granularity = RecomputeGranularity::kSelective;
  job.recompute.policy = policy;
  return job;
}

JobSpec SelectiveModules(JobSpec job, RecomputeModules modules) {
  job = Selective(job);
  job.recompute.modules = modules;
  return job;
}

// Of the first layer: units[0] is the embedding.
Bytes KeptByLayer(const Workload& workload, std::size_t unit = 1) {
  Bytes bytes;
  for (const Operator& op : workload.units[unit].operators) bytes += op.kept();
  return bytes;
}

Bytes SavedByLayer(const Workload& workload, std::size_t unit = 1) {
  Bytes bytes;
  for (const Operator& op : workload.units[unit].operators) bytes += op.saved;
  return bytes;
}

Bytes Remade(const Rerun& rerun) {
  Bytes bytes;
  for (const Rerun::Step& step : rerun.steps) bytes += step.remade;
  return bytes;
}

std::vector<std::string> StepNames(const Workload& workload, const Rerun& rerun) {
  std::vector<std::string> names;
  for (const Rerun::Step& step : rerun.steps) {
    names.push_back(workload.OperatorAt(step.place).name);
  }
  return names;
}

// Forward FLOPs of the layers alone.
Flops LayerForward(const Workload& workload) {
  Flops flops;
  for (const ModelUnit& unit : workload.units) {
    if (unit.name.rfind("layers.", 0) != 0) continue;
    for (const Operator& op : unit.operators) flops += op.forward.flops;
  }
  return flops;
}

TEST(Recompute, NoneChangesNothing) {
  const Workload workload = BuildWorkload(Gpt());
  EXPECT_THAT(workload.reruns, IsEmpty());
  EXPECT_EQ(KeptByLayer(workload), SavedByLayer(workload));
}

// Korthikanti et al., table 2: full recomputation keeps 2 s b h of a layer, its input in 16 bit.
TEST(Recompute, FullKeepsTheInputOfALayer) {
  for (const AttentionKind attention : {AttentionKind::kFlash, AttentionKind::kUnfused}) {
    const Workload workload = BuildWorkload(Full(Gpt(attention)));
    EXPECT_EQ(KeptByLayer(workload), Bytes{2 * kSbh});
    ASSERT_THAT(workload.reruns, SizeIs(12));
    // Everything else is there again before the layer's backward.
    EXPECT_EQ(Remade(workload.reruns[0]), SavedByLayer(workload) - Bytes{2 * kSbh});
    EXPECT_EQ(workload.reruns[0].before.unit, 1);
    EXPECT_THAT(workload.reruns[0].steps, SizeIs(workload.units[1].operators.size()));
  }
}

// The same of every way to run a layer: norms that are written out, autocast, post-norm. The input
// has the type of the residual stream.
TEST(Recompute, FullKeepsTheInputHoweverTheLayerRuns) {
  for (const bool autocast : {false, true}) {
    for (const KernelMode mode : {KernelMode::kEager, KernelMode::kCompiled, KernelMode::kFused}) {
      for (const TransformerSpec& spec : {testing::Gpt2(), testing::Llama3Of8b()}) {
        JobSpec job = autocast ? testing::AutocastJobOf(spec, 2, 256) : JobOf(spec, 2, 256);
        job.kernels = mode;
        const std::int64_t element = autocast ? 4 : 2;
        const Workload workload = BuildWorkload(Full(job));
        EXPECT_EQ(KeptByLayer(workload), Bytes{element * 2 * 256 * spec.hidden_size});
        Bytes held;  // what only the rerun reads
        for (const Operator& op : workload.units[1].operators) held += op.held;
        EXPECT_EQ(KeptByLayer(workload) + Remade(workload.reruns[0]),
                  SavedByLayer(workload) + held);
      }
    }
  }
}

// Hardware FLOPs: the layers' forward runs once more. Model FLOPs do not count it.
TEST(Recompute, FullRunsTheLayersForwardOnceMore) {
  const Workload none = BuildWorkload(Gpt());
  const Workload full = BuildWorkload(Full(Gpt()));
  EXPECT_DOUBLE_EQ(HardwareFlops(full).value, HardwareFlops(none).value + LayerForward(none).value);
  EXPECT_DOUBLE_EQ(ModelFlops(Full(Gpt()))[0].second.value, ModelFlops(Gpt())[0].second.value);
}

// Megatron: uniform keeps the input of each checkpoint, block those of the first layers only.
TEST(Recompute, UniformKeepsOneInputForSeveralLayers) {
  JobSpec job = Full(Gpt());
  job.recompute.num_layers = 5;
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(KeptByLayer(workload, 1), Bytes{2 * kSbh});
  EXPECT_EQ(KeptByLayer(workload, 2), Bytes{0});
  EXPECT_EQ(KeptByLayer(workload, 6), Bytes{2 * kSbh});
  ASSERT_THAT(workload.reruns, SizeIs(3));  // 5 + 5 + 2 layers
  EXPECT_EQ(Remade(workload.reruns[0]), SavedByLayer(workload) * 5 - Bytes{2 * kSbh});
  EXPECT_EQ(workload.reruns[0].before.unit, 5);
  EXPECT_EQ(workload.reruns[2].before.unit, 12);
}

TEST(Recompute, BlockRecomputesTheFirstLayers) {
  JobSpec job = Full(Gpt());
  job.recompute.method = RecomputeMethod::kBlock;
  job.recompute.num_layers = 2;
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(KeptByLayer(workload, 2), Bytes{2 * kSbh});
  EXPECT_EQ(KeptByLayer(workload, 3), SavedByLayer(workload, 3));
  EXPECT_THAT(workload.reruns, SizeIs(2));
}

TEST(Recompute, EveryNthLayer) {
  JobSpec job = Selective(Gpt(), RecomputePolicy::kLayer);
  job.recompute.num_layers = 3;
  const Workload workload = BuildWorkload(job);
  ASSERT_THAT(workload.reruns, SizeIs(4));
  EXPECT_EQ(workload.reruns[0].before.unit, 3);  // the third layer
  EXPECT_EQ(KeptByLayer(workload, 2), SavedByLayer(workload, 2));
}

// Korthikanti et al.: 34 s b h + 5 a s^2 b, and 34 s b h without the scores.
TEST(Recompute, CoreAttentionDropsTheScores) {
  const Workload none = BuildWorkload(Gpt(AttentionKind::kUnfused));
  EXPECT_EQ(KeptByLayer(none), Bytes{34 * kSbh + 5 * kA * kS * kS * kB});
  const Workload selective = BuildWorkload(Selective(Gpt(AttentionKind::kUnfused)));
  EXPECT_EQ(KeptByLayer(selective), Bytes{34 * kSbh});
  EXPECT_THAT(StepNames(selective, selective.reruns[0]),
              ElementsAre("attention.scores", "attention.softmax", "attention.dropout",
                          "attention.context"));
}

// Flash attention keeps nothing but its operands: running it again wins nothing.
TEST(Recompute, CoreAttentionIsPointlessWithFlash) {
  const Workload selective = BuildWorkload(Selective(Gpt()));
  EXPECT_EQ(KeptByLayer(selective), Bytes{34 * kSbh});
  EXPECT_THAT(StepNames(selective, selective.reruns[0]), ElementsAre("attention"));
}

// The MLP keeps its input (2 s b h) and drops fc1's result and the activation's (8 s b h each).
TEST(Recompute, MlpDropsBothWideTensors) {
  const Workload workload =
      BuildWorkload(SelectiveModules(Gpt(), {.core_attn = false, .mlp = true}));
  EXPECT_EQ(KeptByLayer(workload), Bytes{(34 - 16) * kSbh});
  EXPECT_THAT(StepNames(workload, workload.reruns[0]), ElementsAre("fc1", "activation", "fc2"));
}

// What the two norms wrote (2 s b h each) is made from their inputs, before the linears behind them
// need it.
TEST(Recompute, LayernormDropsWhatNormsWrote) {
  const Workload workload =
      BuildWorkload(SelectiveModules(Gpt(), {.core_attn = false, .layernorm = true}));
  EXPECT_EQ(KeptByLayer(workload), Bytes{(34 - 4) * kSbh});
  ASSERT_THAT(workload.reruns, SizeIs(24));
  EXPECT_THAT(StepNames(workload, workload.reruns[0]), ElementsAre("norm1"));
  EXPECT_EQ(workload.OperatorAt(workload.reruns[0].before).name, "qkv");
  EXPECT_EQ(workload.OperatorAt(workload.reruns[1].before).name, "fc1");
}

// q, k and v read one tensor: v is the first whose backward needs it.
TEST(Recompute, LayernormRunsBeforeTheLastReader) {
  JobSpec job = JobOf(testing::Llama3Of8b(), 1, 512);
  job.kernels = KernelMode::kFused;
  const Workload workload =
      BuildWorkload(SelectiveModules(job, {.core_attn = false, .layernorm = true}));
  EXPECT_EQ(workload.OperatorAt(workload.reruns[0].before).name, "v");
  EXPECT_EQ(workload.OperatorAt(workload.reruns[1].before).name, "up");
}

// torchtitan's "op": of q, k, v, o, gate, up, down the first, third, fifth and seventh result is
// kept, and that of attention.
TEST(Recompute, OpPolicyKeepsEverySecondProduct) {
  JobSpec job = Selective(JobOf(testing::Llama3Of8b(), 1, 512), RecomputePolicy::kOp);
  job.kernels = KernelMode::kFused;
  const Workload workload = BuildWorkload(job);
  EXPECT_THAT(StepNames(workload, workload.reruns[0]),
              ElementsAre("norm1", "k", "rotary", "proj", "residual1", "norm2", "up", "activation",
                          "residual2"));
  // The layer's input, q, v, the results of attention, gate and down: the policy keeps the last one
  // too, though only the rerun of the sum reads it.
  const std::int64_t columns = 4096 + 4096 + 1024 + 4096 + 14336 + 4096;
  EXPECT_EQ(KeptByLayer(workload), Bytes{2 * 512 * columns});
}

// Nothing is needed of what comes after the last tensor that backward reads: down and the sum.
TEST(Recompute, EarlyStopLeavesOutTheEnd) {
  JobSpec job = Full(JobOf(testing::Llama3Of8b(), 1, 512));
  job.kernels = KernelMode::kFused;
  const std::size_t whole = BuildWorkload(job).reruns[0].steps.size();
  job.recompute.early_stop = true;
  const Workload workload = BuildWorkload(job);
  EXPECT_EQ(workload.reruns[0].steps.size(), whole - 2);
  EXPECT_EQ(StepNames(workload, workload.reruns[0]).back(), "activation");
}

// Embedding, last norm, head and loss keep what they kept.
TEST(Recompute, OnlyLayersAreCheckpointed) {
  const Workload none = BuildWorkload(Gpt());
  const Workload full = BuildWorkload(Full(Gpt()));
  for (std::size_t u = 0; u < none.units.size(); ++u) {
    if (none.units[u].name.rfind("layers.", 0) == 0) continue;
    EXPECT_EQ(KeptByLayer(full, u), KeptByLayer(none, u)) << none.units[u].name;
  }
}

}  // namespace
}  // namespace stepsim
