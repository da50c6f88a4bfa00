#include "models/workload/gradient_flow.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using testing::JobOf;

const Operator& Find(const Workload& workload, std::size_t unit, const std::string& name) {
  for (const Operator& op : workload.units[unit].operators) {
    if (op.name == name) return op;
  }
  ADD_FAILURE() << name;
  return workload.units[unit].operators.front();
}

std::vector<JobSpec> Jobs() {
  std::vector<JobSpec> jobs;
  for (const TransformerSpec& spec :
       {testing::Gpt2(), testing::Llama3Of8b(), testing::Llama32Of3b(), testing::BertBase()}) {
    for (const KernelMode mode : {KernelMode::kEager, KernelMode::kCompiled, KernelMode::kFused}) {
      for (const AttentionKind attention : {AttentionKind::kFlash, AttentionKind::kUnfused}) {
        for (const bool autocast : {false, true}) {
          JobSpec job = autocast ? testing::AutocastJobOf(spec, 2, 128) : JobOf(spec, 2, 128);
          job.kernels = mode;
          job.attention = attention;
          jobs.push_back(job);
        }
      }
    }
  }
  return jobs;
}

// Backward takes every gradient that it makes, and none before.
TEST(GradientFlow, WhatIsMadeIsTaken) {
  for (const JobSpec& job : Jobs()) {
    const Workload workload = BuildWorkload(job);
    Bytes activations, weights;
    for (auto unit = workload.units.rbegin(); unit != workload.units.rend(); ++unit) {
      for (auto op = unit->operators.rbegin(); op != unit->operators.rend(); ++op) {
        activations += op->gradients_made;
        weights += op->weight_gradients_made;
        activations = activations - op->gradients_taken;
        weights = weights - op->weight_gradients_taken;
        EXPECT_GE(activations.value, 0) << unit->name << "." << op->name;
        EXPECT_GE(weights.value, 0) << unit->name << "." << op->name;
      }
    }
    EXPECT_EQ(activations.value, 0);
    EXPECT_EQ(weights.value, 0);
  }
}

// Fused Llama in 16 bit: the gradient of the logits, 2 T V, then that of the stream, 2 T h, and
// inside the layer those of the wide tensors: down makes 2 T f, the activation 2 x 2 T f of it.
TEST(GradientFlow, ThroughALlamaLayer) {
  JobSpec job = JobOf(testing::Llama3Of8b(), 1, 512);
  job.kernels = KernelMode::kFused;
  const Workload workload = BuildWorkload(job);
  const std::int64_t t = 2 * 512, h = 4096, f = 14336, v = 128256;
  const std::size_t loss = workload.units.size() - 1;
  EXPECT_EQ(Find(workload, loss, "cross_entropy").gradients_made, Bytes{t * v});
  EXPECT_EQ(Find(workload, loss - 1, "head").gradients_taken, Bytes{t * v});
  EXPECT_EQ(Find(workload, loss - 1, "head").gradients_made, Bytes{t * h});
  // The sum hands its gradient on to both operands.
  EXPECT_EQ(Find(workload, 1, "residual2").gradients_made, Bytes{0});
  EXPECT_EQ(Find(workload, 1, "residual2").gradients_taken, Bytes{0});
  EXPECT_EQ(Find(workload, 1, "down").gradients_made, Bytes{t * f});
  EXPECT_EQ(Find(workload, 1, "activation").gradients_made, Bytes{2 * t * f});
  EXPECT_EQ(Find(workload, 1, "activation").gradients_taken, Bytes{t * f});
  // up makes the gradient of the norm's result; gate's is added to it.
  EXPECT_EQ(Find(workload, 1, "up").gradients_made, Bytes{t * h});
  EXPECT_EQ(Find(workload, 1, "gate").gradients_made, Bytes{0});
  EXPECT_EQ(Find(workload, 1, "gate").backward_workspace, Bytes{t * h});
  // The norm's gradient is added to the stream's.
  EXPECT_EQ(Find(workload, 1, "norm2").gradients_made, Bytes{0});
  EXPECT_EQ(Find(workload, 1, "norm2").backward_workspace, Bytes{t * h});
}

// Written out in fp32: 4 T V of log-probabilities are saved; backward's nll and log-softmax make
// 4 T V each, of which the 16-bit gradient is one half of one.
TEST(GradientFlow, TheLossIsWideWhenWrittenOut) {
  const Workload workload = BuildWorkload(JobOf(testing::Gpt2(), 4, 1024));
  const Operator& loss = Find(workload, workload.units.size() - 1, "cross_entropy");
  const std::int64_t logits = 4 * 1024 * 50257;
  EXPECT_EQ(loss.saved, Bytes{4 * logits});
  EXPECT_EQ(loss.gradients_made + loss.backward_workspace, Bytes{8 * logits});
  EXPECT_EQ(loss.forward_workspace, Bytes{(2 + 4) * logits});
}

// A tied table's gradient is there from the head on.
TEST(GradientFlow, TheTiedTableWaitsForTheEmbedding) {
  const Workload workload = BuildWorkload(JobOf(testing::Gpt2(), 1, 128));
  const std::int64_t table = 2 * 50257 * 768;
  EXPECT_EQ(Find(workload, workload.units.size() - 2, "head").weight_gradients_made, Bytes{table});
  EXPECT_EQ(Find(workload, 0, "token_embedding").weight_gradients_taken, Bytes{table});
}

}  // namespace
}  // namespace stepsim
