// What network is trained? Either a transformer in numbers, or an explicit list of layers with
// every parameter tensor (convolutional networks, hand-made examples).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

enum class PositionKind { kLearned, kRotary, kNone };
enum class NormKind { kLayerNorm, kRmsNorm };

// A mixture of experts instead of the MLP: a router sends each token to `top_k` of `count` experts.
struct ExpertsSpec {
  std::int64_t count = 0;            // 0: an ordinary MLP in every layer
  std::int64_t top_k = 1;            // experts of a token
  std::int64_t ffn_size = 0;         // width of one expert
  std::int64_t shared_ffn_size = 0;  // of the expert that sees every token; 0: there is none
  bool shared_gate = false;          // each token weighs the shared expert's result
  std::int64_t dense_layers = 0;     // leading layers with an ordinary MLP
};

struct TransformerSpec {
  std::int64_t layers = 1;
  std::int64_t hidden_size = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;  // usually hidden_size / heads
  std::int64_t ffn_size = 4;  // MLP width
  bool gated_mlp = false;     // SwiGLU: three matrices, else two
  std::int64_t vocab_size = 1;
  std::int64_t vocab_multiple = 1;  // the table is padded to a multiple of this
  bool tied_embeddings = false;     // the head is the token embedding
  PositionKind positions = PositionKind::kRotary;
  std::int64_t max_positions = 0;  // rows of the learned table
  NormKind norm = NormKind::kRmsNorm;
  bool qkv_bias = false;
  bool qk_norm = false;      // RMS norms over each head of queries and keys
  bool output_bias = false;  // attention output projection
  bool mlp_bias = false;
  bool causal = true;
  double dropout = 0;
  // BERT's extras
  std::int64_t token_types = 0;  // rows of the segment embedding
  bool embedding_norm = false;
  bool final_norm = true;
  bool pooler = false;    // dense h x h on the first token
  bool mlm_head = false;  // dense h x h + norm before the (tied) decoder, decoder bias
  bool next_sentence_head = false;
  ExpertsSpec experts;

  std::int64_t padded_vocab() const;  // vocab_size rounded up
  bool has_experts() const { return experts.count > 0; }
  bool HasExpertsIn(std::int64_t layer) const {
    return has_experts() && layer >= experts.dense_layers;
  }
  std::int64_t expert_layers() const { return has_experts() ? layers - experts.dense_layers : 0; }
};

struct ParameterSpec {
  std::string name;  // "layer1.0.conv1.weight"
  std::int64_t elements = 0;
  std::optional<DType> dtype;  // default: precision.parameters
};

// One layer of an explicit list, per sample (image, sequence). In execution order.
struct LayerSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;  // in registration order
  Flops forward_flops;                    // per sample
  std::optional<Flops> backward_flops;    // per sample; default 2 x forward
  Bytes forward_bytes;                    // per sample, HBM traffic of the activations
  std::optional<Bytes> backward_bytes;    // per sample; default 2 x forward
  // As profiled, of one micro-batch as it is: the layer then takes this long alone, whatever its
  // FLOPs and bytes.
  std::optional<Duration> forward_time;
  std::optional<Duration> backward_time;  // default 2 x forward
  Bytes saved_bytes;                      // per sample, kept for backward
  Bytes buffers;                          // non-parameter state (batch-norm statistics)
};

struct LayerListSpec {
  std::vector<LayerSpec> layers;
  std::int64_t tokens_per_sample = 0;  // 0: samples are not made of tokens
};

struct ModelSpec {
  std::string name;
  std::string description;
  std::int64_t reference_parameters = 0;  // as published; 0 = not stated
  std::variant<TransformerSpec, LayerListSpec> network;
};

}  // namespace stepsim
