#include "models/workload/transformer_modules.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "models/workload/model_flops.h"

namespace stepsim {
namespace {

// Module names of Hugging Face's transformers. Names within a layer follow `layer` and its index.
struct FamilyNames {
  std::string_view tokens, positions, token_types, embedding_norm;
  std::string_view layer;
  std::string_view norm1, fused_qkv, query, key, value, proj, norm2, gate, up, down;
  std::string_view final_norm, pooler, mlm_bias, mlm_transform, mlm_norm, head, next_sentence;
};

constexpr std::array<FamilyNames, 3> kNames = {
    FamilyNames{// GPT-2
                "transformer.wte",
                "transformer.wpe",
                "transformer.token_type",
                "transformer.ln_embedding",
                "transformer.h",
                "ln_1",
                "attn.c_attn",
                "attn.q_attn",
                "attn.k_attn",
                "attn.v_attn",
                "attn.c_proj",
                "ln_2",
                "mlp.c_gate",
                "mlp.c_fc",
                "mlp.c_proj",
                "transformer.ln_f",
                "pooler.dense",
                "predictions.bias",
                "predictions.transform.dense",
                "predictions.transform.LayerNorm",
                "lm_head",
                "seq_relationship"},
    FamilyNames{// Llama
                "model.embed_tokens",
                "model.embed_positions",
                "model.embed_token_types",
                "model.embed_norm",
                "model.layers",
                "input_layernorm",
                "self_attn.qkv_proj",
                "self_attn.q_proj",
                "self_attn.k_proj",
                "self_attn.v_proj",
                "self_attn.o_proj",
                "post_attention_layernorm",
                "mlp.gate_proj",
                "mlp.up_proj",
                "mlp.down_proj",
                "model.norm",
                "pooler.dense",
                "predictions.bias",
                "predictions.transform.dense",
                "predictions.transform.LayerNorm",
                "lm_head",
                "seq_relationship"},
    FamilyNames{// BERT
                "bert.embeddings.word_embeddings",
                "bert.embeddings.position_embeddings",
                "bert.embeddings.token_type_embeddings",
                "bert.embeddings.LayerNorm",
                "bert.encoder.layer",
                "attention.output.LayerNorm",
                "attention.self.qkv",
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention.output.dense",
                "output.LayerNorm",
                "intermediate.gate",
                "intermediate.dense",
                "output.dense",
                "bert.final_norm",
                "bert.pooler.dense",
                "cls.predictions.bias",
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions.decoder",
                "cls.seq_relationship"},
};

class Registrar {
 public:
  Registrar(const TransformerSpec& spec, DType dtype, std::vector<ParameterTensor>& parameters,
            const ExpertShare& share, bool fuses_linears)
      : spec_(spec),
        share_(share),
        fuses_linears_(fuses_linears),
        family_(FamilyOf(spec)),
        names_(kNames[static_cast<std::size_t>(family_)]),
        dtype_(dtype),
        parameters_(parameters) {}

  TransformerModules Register() {
    TransformerModules modules;
    RegisterEmbedding(modules);
    modules.layers.reserve(static_cast<std::size_t>(spec_.layers));
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
      modules.layers.push_back(RegisterLayer(fmt::format("{}.{}.", names_.layer, i), i));
    }
    if (spec_.final_norm) modules.final_norm = Norm(names_.final_norm);
    RegisterHeads(modules);
    return modules;
  }

 private:
  void RegisterEmbedding(TransformerModules& modules) {
    modules.tokens = Table(names_.tokens, spec_.padded_vocab());
    if (spec_.positions == PositionKind::kLearned) {
      modules.positions = Table(names_.positions, spec_.max_positions);
    }
    if (spec_.token_types > 0) modules.token_types = Table(names_.token_types, spec_.token_types);
    if (spec_.embedding_norm) modules.embedding_norm = Norm(names_.embedding_norm);
  }

  // The order of members is the order of registration, family by family.
  LayerModules RegisterLayer(const std::string& prefix, std::int64_t index) {
    LayerModules layer;
    const auto attention = [&] { RegisterAttention(prefix, layer); };
    const auto mlp = [&] {
      spec_.HasExpertsIn(index) ? RegisterExperts(prefix, layer) : RegisterMlp(prefix, layer);
    };
    const auto norm1 = [&] { layer.norm1 = Norm(prefix, names_.norm1); };
    const auto norm2 = [&] { layer.norm2 = Norm(prefix, names_.norm2); };
    switch (family_) {
      case TransformerFamily::kGpt:
        norm1(), attention(), norm2(), mlp();
        break;
      case TransformerFamily::kLlama:
        attention(), mlp(), norm1(), norm2();
        break;
      case TransformerFamily::kBert:
        attention(), norm1(), mlp(), norm2();
        break;
    }
    return layer;
  }

  void RegisterAttention(const std::string& prefix, LayerModules& layer) {
    const std::int64_t h = spec_.hidden_size;
    const std::int64_t query = spec_.heads * spec_.head_dim;
    const std::int64_t key = spec_.kv_heads * spec_.head_dim;
    const bool bias = spec_.qkv_bias;
    if (fuses_linears_ || family_ == TransformerFamily::kGpt) {
      layer.qkv = {Linear("qkv", prefix, names_.fused_qkv, h, query + 2 * key, bias)};
    } else {
      layer.qkv.push_back(Linear("q", prefix, names_.query, h, query, bias));
      layer.qkv.push_back(Linear("k", prefix, names_.key, h, key, bias));
      layer.qkv.push_back(Linear("v", prefix, names_.value, h, key, bias));
    }
    layer.proj = Linear("proj", prefix, names_.proj, query, h, spec_.output_bias);
    if (!spec_.qk_norm) return;
    layer.query_norm = {Add(prefix + "self_attn.q_norm.weight", spec_.head_dim), kNoParameter};
    layer.key_norm = {Add(prefix + "self_attn.k_norm.weight", spec_.head_dim), kNoParameter};
  }

  void RegisterMlp(const std::string& prefix, LayerModules& layer) {
    const std::int64_t h = spec_.hidden_size;
    const std::int64_t f = spec_.ffn_size;
    const bool bias = spec_.mlp_bias;
    if (spec_.gated_mlp && fuses_linears_) {
      layer.up.push_back(Linear("fc1", prefix, "mlp.gate_up_proj", h, 2 * f, bias));
      layer.down = Linear("fc2", prefix, names_.down, f, h, bias);
    } else if (spec_.gated_mlp) {
      layer.up.push_back(Linear("gate", prefix, names_.gate, h, f, bias));
      layer.up.push_back(Linear("up", prefix, names_.up, h, f, bias));
      layer.down = Linear("down", prefix, names_.down, f, h, bias);
    } else {
      layer.up.push_back(Linear("fc1", prefix, names_.up, h, f, bias));
      layer.down = Linear("fc2", prefix, names_.down, f, h, bias);
    }
  }

  // Named as Hugging Face's mixtures of Qwen. An expert's matrices have no biases.
  void RegisterExperts(const std::string& prefix, LayerModules& layer) {
    const std::int64_t h = spec_.hidden_size;
    ExpertModules experts;
    experts.router = Linear("moe.router", prefix, "mlp.gate", h, spec_.experts.count, false);
    experts.local = spec_.experts.count / share_.ranks;
    experts.ffn = spec_.experts.ffn_size / share_.tensor;
    const std::int64_t up = experts.local * experts.ffn * h;
    experts.up = Add(prefix + "mlp.experts.gate_up_proj", spec_.gated_mlp ? 2 * up : up);
    parameters_.back().is_expert = share_.is_apart;
    experts.down = Add(prefix + "mlp.experts.down_proj", up);
    parameters_.back().is_expert = share_.is_apart;
    if (spec_.experts.shared_ffn_size > 0) RegisterSharedExpert(prefix, layer, experts);
    layer.experts = experts;
  }

  void RegisterSharedExpert(const std::string& prefix, LayerModules& layer,
                            ExpertModules& experts) {
    const std::int64_t h = spec_.hidden_size, f = spec_.experts.shared_ffn_size;
    const std::string name = "mlp.shared_expert.";
    if (spec_.gated_mlp && fuses_linears_) {
      layer.up.push_back(Linear("shared.up", prefix, name + "gate_up_proj", h, 2 * f, false));
    } else {
      if (spec_.gated_mlp) {
        layer.up.push_back(Linear("shared.gate", prefix, name + "gate_proj", h, f, false));
      }
      layer.up.push_back(Linear("shared.up", prefix, name + "up_proj", h, f, false));
    }
    layer.down = Linear("shared.down", prefix, name + "down_proj", f, h, false);
    if (!spec_.experts.shared_gate) return;
    experts.shared_gate = Add(prefix + "mlp.shared_expert_gate.weight", h);
  }

  void RegisterHeads(TransformerModules& modules) {
    const std::int64_t h = spec_.hidden_size;
    if (spec_.pooler) modules.pooler = Linear("pooler", "", names_.pooler, h, h, true);
    if (HasVocabularyHead(spec_)) {
      LinearModule head{"head", h, spec_.padded_vocab(), modules.tokens.weight, kNoParameter};
      if (spec_.mlm_head) {
        head.bias = Add(std::string(names_.mlm_bias), head.out);
        modules.mlm_transform = Linear("transform", "", names_.mlm_transform, h, h, true);
        modules.mlm_norm = Norm(names_.mlm_norm);
      }
      if (!spec_.tied_embeddings) head.weight = Add(Weight(names_.head), head.out * h);
      modules.head = head;
    }
    if (spec_.next_sentence_head) {
      modules.next_sentence = Linear("next_sentence", "", names_.next_sentence, h, 2, true);
    }
  }

  LinearModule Linear(std::string_view op, std::string_view prefix, std::string_view name,
                      std::int64_t in, std::int64_t out, bool bias) {
    const std::string full = fmt::format("{}{}", prefix, name);
    LinearModule module{std::string(op), in, out, Add(Weight(full), in * out), kNoParameter};
    if (bias) module.bias = Add(Bias(full), out);
    return module;
  }

  NormModule Norm(std::string_view prefix, std::string_view name) {
    return Norm(fmt::format("{}{}", prefix, name));
  }

  NormModule Norm(std::string_view name) {
    NormModule module;
    module.weight = Add(Weight(name), spec_.hidden_size);
    if (spec_.norm == NormKind::kLayerNorm) module.bias = Add(Bias(name), spec_.hidden_size);
    return module;
  }

  TableModule Table(std::string_view name, std::int64_t rows) {
    return {rows, Add(Weight(name), rows * spec_.hidden_size)};
  }

  static std::string Weight(std::string_view module) { return fmt::format("{}.weight", module); }
  static std::string Bias(std::string_view module) { return fmt::format("{}.bias", module); }

  std::int32_t Add(std::string name, std::int64_t elements) {
    parameters_.push_back({std::move(name), elements, dtype_});
    return static_cast<std::int32_t>(parameters_.size() - 1);
  }

  const TransformerSpec& spec_;
  const ExpertShare& share_;
  bool fuses_linears_;
  TransformerFamily family_;
  const FamilyNames& names_;
  DType dtype_;
  std::vector<ParameterTensor>& parameters_;
};

}  // namespace

TransformerFamily FamilyOf(const TransformerSpec& spec) {
  if (!spec.causal) return TransformerFamily::kBert;
  return spec.gated_mlp ? TransformerFamily::kLlama : TransformerFamily::kGpt;
}

TransformerModules RegisterModules(const TransformerSpec& spec, DType dtype,
                                   std::vector<ParameterTensor>& parameters,
                                   const ExpertShare& share, bool fuses_linears) {
  return Registrar(spec, dtype, parameters, share, fuses_linears).Register();
}

}  // namespace stepsim
