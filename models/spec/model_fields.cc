#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kPositionNames = {
    EnumName<PositionKind>{PositionKind::kLearned, "learned"},
    EnumName<PositionKind>{PositionKind::kRotary, "rotary"},
    EnumName<PositionKind>{PositionKind::kNone, "none"},
};
constexpr std::array kNormNames = {
    EnumName<NormKind>{NormKind::kLayerNorm, "layer_norm"},
    EnumName<NormKind>{NormKind::kRmsNorm, "rms_norm"},
};

// Beyond any network; their products stay below 2^63.
constexpr double kMostLayers = 10'000;
constexpr double kWidest = 1e6;
constexpr double kMostElements = 1e15;

const StructTable<ParameterSpec>& ParameterFields() {
  static const StructTable<ParameterSpec> table{
      Field("name", &ParameterSpec::name, "as PyTorch names it").Required(),
      Field("elements", &ParameterSpec::elements, "number of elements")
          .Required()
          .Range(1, kMostElements),
      Field("dtype", &ParameterSpec::dtype, "element type")
          .Unset("precision.parameters")
          .Choices({"fp32", "bf16", "fp16", "fp8"}),
  };
  return table;
}

const StructTable<LayerSpec>& LayerFields() {
  static const StructTable<LayerSpec> table{
      Field("name", &LayerSpec::name, "the layer's name, for reports").Required(),
      Field("parameters", &LayerSpec::parameters, ParameterFields(),
            "parameter tensors in registration order"),
      Field("forward_flops", &LayerSpec::forward_flops,
            "work of the forward pass per sample, 2 FLOP per multiply-add"),
      Field("backward_flops", &LayerSpec::backward_flops, "work of the backward pass per sample")
          .Unset("twice the forward"),
      Field("forward_bytes", &LayerSpec::forward_bytes,
            "memory traffic of the activations in the forward pass, per sample"),
      Field("backward_bytes", &LayerSpec::backward_bytes,
            "memory traffic in the backward pass, per sample")
          .Unset("twice the forward"),
      Field("forward_time", &LayerSpec::forward_time,
            "profiled time of the forward pass of one micro-batch, alone; FLOPs and bytes then set "
            "no time")
          .Unset("priced by FLOPs and bytes"),
      Field("backward_time", &LayerSpec::backward_time,
            "profiled time of the backward pass of one micro-batch, alone")
          .Unset("twice the forward_time, where that is given"),
      Field("saved_bytes", &LayerSpec::saved_bytes, "kept for the backward pass, per sample"),
      Field("buffers", &LayerSpec::buffers,
            "state that is no parameter, such as the statistics of a batch norm"),
  };
  return table;
}

const StructTable<ExpertsSpec>& ExpertsFields() {
  using E = ExpertsSpec;
  static const StructTable<E> table{
      Field("count", &E::count, "experts of a layer; 0: an ordinary MLP")
          .Range(0, 100'000)
          .Aliases({"num_experts", "num_local_experts", "n_routed_experts"}),
      Field("top_k", &E::top_k, "experts that a token is sent to")
          .Range(1, 100'000)
          .Aliases({"num_experts_per_tok", "moe_router_topk"}),
      Field("ffn_size", &E::ffn_size, "width of an expert; 0: as the MLP")
          .Range(0, kWidest * 10)
          .Aliases({"moe_intermediate_size", "moe_ffn_hidden_size"}),
      Field("shared_ffn_size", &E::shared_ffn_size,
            "width of the shared expert, which every token is sent to; 0: there is none")
          .Range(0, kWidest * 10)
          .Aliases({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"}),
      Field("shared_gate", &E::shared_gate, "the shared expert's result is weighed by token"),
      Field("dense_layers", &E::dense_layers, "leading layers with an ordinary MLP")
          .Range(0, kMostLayers)
          .Aliases({"first_k_dense_replace"}),
  };
  return table;
}

}  // namespace

const StructTable<TransformerSpec>& TransformerFields() {
  using T = TransformerSpec;
  static const StructTable<T> table{
      Field("layers", &T::layers, "transformer blocks").Required().Range(1, kMostLayers),
      Field("hidden_size", &T::hidden_size, "width of the residual stream")
          .Required()
          .Range(1, kWidest),
      Field("heads", &T::heads, "attention heads").Required().Range(1, 100'000),
      Field("kv_heads", &T::kv_heads, "key and value heads").Unset("heads").Range(1, 100'000),
      Field("head_dim", &T::head_dim, "width of a head")
          .Unset("hidden_size / heads")
          .Range(1, 100'000),
      Field("ffn_size", &T::ffn_size, "width of the MLP").Required().Range(1, kWidest * 10),
      Field("gated_mlp", &T::gated_mlp, "SwiGLU and its like: three matrices instead of two"),
      Field("vocab_size", &T::vocab_size, "words of the vocabulary").Required().Range(1, 1e8),
      Field("vocab_multiple", &T::vocab_multiple, "the table is padded to a multiple of this")
          .Range(1, 1e6),
      Field("tied_embeddings", &T::tied_embeddings, "the output layer is the token embedding"),
      Field("positions", &T::positions, kPositionNames, "how positions enter"),
      Field("max_positions", &T::max_positions, "rows of the learned position table").Range(0, 1e9),
      Field("norm", &T::norm, kNormNames, "kind of normalisation"),
      Field("qkv_bias", &T::qkv_bias, "the query, key and value projections have a bias"),
      Field("qk_norm", &T::qk_norm, "an RMS norm over each head of queries and keys"),
      Field("output_bias", &T::output_bias, "the attention's output projection has a bias"),
      Field("mlp_bias", &T::mlp_bias, "the matrices of the MLP have a bias"),
      Field("causal", &T::causal, "a token sees only those before it"),
      Field("dropout", &T::dropout, "probability; 0: no dropout kernels").Range(0, 0.99),
      Field("token_types", &T::token_types, "rows of the segment embedding (BERT)").Range(0, 1e6),
      Field("embedding_norm", &T::embedding_norm, "a normalisation behind the embeddings (BERT)"),
      Field("final_norm", &T::final_norm, "a normalisation behind the last block"),
      Field("pooler", &T::pooler, "a dense layer on the first token (BERT)"),
      Field("mlm_head", &T::mlm_head, "a dense layer and a norm in front of the decoder (BERT)"),
      Field("next_sentence_head", &T::next_sentence_head, "a classifier of two behind the pooler"),
      Field("experts", &T::experts, ExpertsFields(), "a mixture of experts instead of the MLP"),
  };
  return table;
}

const StructTable<LayerListSpec>& LayerListFields() {
  static const StructTable<LayerListSpec> table{
      Field("layers", &LayerListSpec::layers, LayerFields(), "the layers in execution order")
          .Required(),
      Field("tokens_per_sample", &LayerListSpec::tokens_per_sample,
            "tokens of a sample; 0: samples are not made of tokens")
          .Range(0, 1e9),
  };
  return table;
}

const StructTable<ModelSpec>& ModelFields() {
  static const StructTable<ModelSpec> table{
      Field("name", &ModelSpec::name, "the network's name, for reports").Required(),
      Field("description", &ModelSpec::description, "one line for `stepsim list`"),
      Field("reference_parameters", &ModelSpec::reference_parameters,
            "number of parameters as published; 0: not stated")
          .Range(0, 1e15),
      Field<ModelSpec>::Reference("transformer", "a mapping that describes a transformer"),
      Field<ModelSpec>::Reference("layers", "a list of layers, where it is no transformer"),
      Field<ModelSpec>::Reference("tokens_per_sample", "for a list of layers"),
  };
  return table;
}

}  // namespace stepsim
