// Which parameter tensors does a transformer have, in which order are they registered?
//
// Tensors are named and ordered as Hugging Face's modules register them (weights and biases apart),
// so that a bucket can be held against a DDP log. The family follows from the description:
//
//   bidirectional          BERT    post-norm, separate query, key, value
//   causal, gated MLP      Llama   pre-norm, separate q, k, v; norms registered after the MLP
//   causal, plain MLP      GPT-2   pre-norm, one fused qkv tensor
//
// Megatron-LM's layers have one tensor for q, k and v and one for gate and up in every family.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/spec/model.h"
#include "models/workload/workload.h"

namespace stepsim {

enum class TransformerFamily { kGpt, kLlama, kBert };
TransformerFamily FamilyOf(const TransformerSpec& spec);

constexpr std::int32_t kNoParameter = -1;  // no bias

// Indices point into Workload::parameters.
struct LinearModule {
  std::string name;  // of the operator: "qkv", "q", "fc1", "gate", ...
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int32_t weight = kNoParameter;
  std::int32_t bias = kNoParameter;
};

struct NormModule {
  std::int32_t weight = kNoParameter;
  std::int32_t bias = kNoParameter;
};

struct TableModule {
  std::int64_t rows = 0;
  std::int32_t weight = kNoParameter;
};

// A mixture of experts, of which this rank holds some. The shared expert is the layer's up and
// down.
struct ExpertModules {
  LinearModule router;
  std::int64_t local = 0;                   // experts on this rank
  std::int64_t ffn = 0;                     // width of its part of each
  std::int32_t up = kNoParameter;           // all of them stacked; gate and up in one
  std::int32_t down = kNoParameter;         // the same
  std::int32_t shared_gate = kNoParameter;  // weighs the shared expert's result
};

struct LayerModules {
  NormModule norm1, norm2;
  std::vector<LinearModule> qkv;  // one fused, or query, key, value
  std::optional<NormModule> query_norm, key_norm;
  LinearModule proj;
  std::vector<LinearModule> up;  // fc1, or gate and up
  LinearModule down;
  std::optional<ExpertModules> experts;
};

// Over how many ranks the experts of a layer are dealt out, and each of them is cut.
struct ExpertShare {
  std::int64_t ranks = 1;
  std::int64_t tensor = 1;
  bool is_apart = false;  // ParameterTensor::is_expert
};

struct TransformerModules {
  TableModule tokens;
  std::optional<TableModule> positions;
  std::optional<TableModule> token_types;
  std::optional<NormModule> embedding_norm;
  std::vector<LayerModules> layers;
  std::optional<NormModule> final_norm;
  std::optional<LinearModule> pooler;
  std::optional<LinearModule> mlm_transform;
  std::optional<NormModule> mlm_norm;
  std::optional<LinearModule> head;  // its weight is the token table's when tied
  std::optional<LinearModule> next_sentence;
};

// Appends every tensor to `parameters`, all of type `dtype`. `fuses_linears`: those that read one
// input are one tensor and one product.
TransformerModules RegisterModules(const TransformerSpec& spec, DType dtype,
                                   std::vector<ParameterTensor>& parameters,
                                   const ExpertShare& share, bool fuses_linears);

}  // namespace stepsim
