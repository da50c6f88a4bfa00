// How many parameters does one GPU hold? By pipeline stage, after tensor and expert parallelism.
#pragma once

#include <cstdint>
#include <vector>

#include "models/memory/formula.h"

namespace stepsim {

struct StageLayers {
  std::int64_t dense = 0;    // layers with an ordinary MLP
  std::int64_t experts = 0;  // layers with a mixture of experts
  bool has_embedding = false;
  bool has_head = false;
  std::int64_t total() const { return dense + experts; }
};
// Layers are dealt out evenly, the remainder to the first stages.
StageLayers LayersOfStage(const FormulaJob& job, std::int64_t stage);

// One weight of a layer on one GPU: rows times columns, `count` times (the experts).
struct Weight {
  double rows = 0;
  double columns = 0;
  double count = 1;
  double elements() const { return rows * columns * count; }
};
// Matrices of one layer; experts' matrices come last and only where `has_experts`.
std::vector<Weight> AttentionWeights(const FormulaJob& job);
std::vector<Weight> MlpWeights(const FormulaJob& job);     // of an ordinary layer
std::vector<Weight> SharedWeights(const FormulaJob& job);  // router and shared expert
std::vector<Weight> ExpertWeights(const FormulaJob& job);

// Megatron pads the vocabulary to a multiple of 128 tp, others do not pad.
double VocabularyPerGpu(const FormulaJob& job);

struct StageParameters {
  double dense = 0;                // sharded over data (and context) parallel peers
  double experts = 0;              // sharded over the peers that hold the same experts
  double embedding = 0, head = 0;  // part of `dense`
  double layer = 0;                // dense part of the largest layer, part of `dense`
};
StageParameters ParametersOfStage(const FormulaJob& job, std::int64_t stage);
double DenseShards(const FormulaJob& job);
double ExpertShards(const FormulaJob& job);

// Bytes of the placeholders that stand in for weight gradients: fused accumulation adds into the
// main gradient, and Transformer Engine hands autograd one cached 16-bit tensor per distinct shape.
double PlaceholderBytes(const FormulaJob& job, std::int64_t stage);

}  // namespace stepsim
