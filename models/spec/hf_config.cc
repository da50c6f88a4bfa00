#include "models/spec/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

enum class ValueKind { kCount, kFlag, kFraction };

constexpr std::string_view kNoDefault = "required";
constexpr std::string_view kLeaveUnset = "";  // our own default is meant

// One of our fields, the key it comes from and what the library assumes when the key is missing.
struct Row {
  std::string_view field;  // "experts.count": of a mapping in it
  std::string_view key;
  std::string_view fallback = kNoDefault;
  ValueKind kind = ValueKind::kCount;
};
struct Constant {
  std::string_view field;
  std::string_view value;
};
// A class of the library and what it adds to the bare network.
struct Architecture {
  std::string_view name;
  std::vector<Constant> constants;
};
struct Family {
  std::string_view model_type;
  std::vector<Architecture> architectures;  // the first one is meant where none is named
  std::vector<Row> rows;
  std::vector<Constant> constants;
  bool has_experts = false;
};

std::vector<Row> CommonRows() {
  return {{"layers", "num_hidden_layers"},
          {"hidden_size", "hidden_size"},
          {"heads", "num_attention_heads"},
          {"ffn_size", "intermediate_size"},
          {"vocab_size", "vocab_size"}};
}

std::vector<Row> With(std::vector<Row> rows, const std::vector<Row>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

// Llama and its relatives: rotary positions, RMS norm, gated MLP.
Family LlamaFamily(std::string_view model_type, std::string_view architecture,
                   const std::vector<Row>& bias_rows, std::vector<Constant> constants) {
  const std::vector<Row> rows = {
      {"kv_heads", "num_key_value_heads", kLeaveUnset},
      {"head_dim", "head_dim", kLeaveUnset},
      {"tied_embeddings", "tie_word_embeddings", "false", ValueKind::kFlag}};
  constants.insert(
      constants.end(),
      {{"gated_mlp", "true"}, {"positions", "rotary"}, {"norm", "rms_norm"}, {"causal", "true"}});
  return {model_type,
          {{architecture, {}}},
          With(With(CommonRows(), rows), bias_rows),
          std::move(constants)};
}

Family WithExperts(Family family, const std::vector<Row>& rows, std::vector<Constant> constants) {
  family.rows = With(std::move(family.rows), rows);
  family.constants.insert(family.constants.end(), constants.begin(), constants.end());
  family.has_experts = true;
  return family;
}

Family MixtralFamily() {
  return WithExperts(
      LlamaFamily("mixtral", "MixtralForCausalLM", {}, {}),
      {{"experts.count", "num_local_experts", "8"}, {"experts.top_k", "num_experts_per_tok", "2"}},
      {});
}

Family Qwen2MoeFamily() {
  return WithExperts(LlamaFamily("qwen2_moe", "Qwen2MoeForCausalLM", {}, {{"qkv_bias", "true"}}),
                     {{"experts.count", "num_experts", "60"},
                      {"experts.top_k", "num_experts_per_tok", "4"},
                      {"experts.ffn_size", "moe_intermediate_size", "1408"},
                      {"experts.shared_ffn_size", "shared_expert_intermediate_size", "5632"}},
                     {{"experts.shared_gate", "true"}});
}

Family Qwen3MoeFamily() {
  return WithExperts(LlamaFamily("qwen3_moe", "Qwen3MoeForCausalLM",
                                 {{"qkv_bias", "attention_bias", "false", ValueKind::kFlag},
                                  {"output_bias", "attention_bias", "false", ValueKind::kFlag}},
                                 {{"qk_norm", "true"}}),
                     {{"experts.count", "num_experts", "128"},
                      {"experts.top_k", "num_experts_per_tok", "8"},
                      {"experts.ffn_size", "moe_intermediate_size", "768"}},
                     {});
}

Family Gpt2Family() {
  return {"gpt2",
          {{"GPT2LMHeadModel", {}}},
          {{"layers", "n_layer"},
           {"hidden_size", "n_embd"},
           {"heads", "n_head"},
           {"ffn_size", "n_inner", kLeaveUnset},  // 4 x n_embd
           {"vocab_size", "vocab_size"},
           {"max_positions", "n_positions", "1024"},
           {"tied_embeddings", "tie_word_embeddings", "true", ValueKind::kFlag},
           {"dropout", "resid_pdrop", "0.1", ValueKind::kFraction}},
          {{"positions", "learned"},
           {"norm", "layer_norm"},
           {"qkv_bias", "true"},
           {"output_bias", "true"},
           {"mlp_bias", "true"},
           {"causal", "true"}}};
}

Family GptNeoxFamily() {
  return {
      "gpt_neox",
      {{"GPTNeoXForCausalLM", {}}},
      With(CommonRows(), {{"qkv_bias", "attention_bias", "true", ValueKind::kFlag},
                          {"output_bias", "attention_bias", "true", ValueKind::kFlag},
                          {"tied_embeddings", "tie_word_embeddings", "false", ValueKind::kFlag},
                          {"dropout", "hidden_dropout", "0", ValueKind::kFraction}}),
      {{"positions", "rotary"}, {"norm", "layer_norm"}, {"mlp_bias", "true"}, {"causal", "true"}}};
}

Family BertFamily(std::string_view model_type, std::vector<Architecture> architectures) {
  return {model_type,
          std::move(architectures),
          With(CommonRows(), {{"max_positions", "max_position_embeddings", "512"},
                              {"token_types", "type_vocab_size", "2"},
                              {"tied_embeddings", "tie_word_embeddings", "true", ValueKind::kFlag},
                              {"dropout", "hidden_dropout_prob", "0.1", ValueKind::kFraction}}),
          {{"positions", "learned"},
           {"norm", "layer_norm"},
           {"qkv_bias", "true"},
           {"output_bias", "true"},
           {"mlp_bias", "true"},
           {"causal", "false"},
           {"embedding_norm", "true"},
           {"final_norm", "false"}}};
}

const std::vector<Family>& Families() {
  static const std::vector<Row> llama_bias = {
      {"qkv_bias", "attention_bias", "false", ValueKind::kFlag},
      {"output_bias", "attention_bias", "false", ValueKind::kFlag},
      {"mlp_bias", "mlp_bias", "false", ValueKind::kFlag}};
  static const std::vector<Family> families = {
      LlamaFamily("llama", "LlamaForCausalLM", llama_bias, {}),
      LlamaFamily("mistral", "MistralForCausalLM", {}, {}),
      LlamaFamily("qwen2", "Qwen2ForCausalLM", {}, {{"qkv_bias", "true"}}),
      LlamaFamily("qwen3", "Qwen3ForCausalLM",
                  {{"qkv_bias", "attention_bias", "false", ValueKind::kFlag},
                   {"output_bias", "attention_bias", "false", ValueKind::kFlag}},
                  {{"qk_norm", "true"}}),
      MixtralFamily(),
      Qwen2MoeFamily(),
      Qwen3MoeFamily(),
      Gpt2Family(),
      GptNeoxFamily(),
      BertFamily("bert",
                 {{"BertModel", {{"pooler", "true"}}},
                  {"BertForMaskedLM", {{"mlm_head", "true"}}},
                  {"BertForPreTraining",
                   {{"pooler", "true"}, {"mlm_head", "true"}, {"next_sentence_head", "true"}}}}),
      BertFamily("roberta", {{"RobertaModel", {{"pooler", "true"}}},
                             {"RobertaForMaskedLM", {{"mlm_head", "true"}}}}),
  };
  return families;
}

// Reads one config.json.
class HfReader {
 public:
  HfReader(const ConfigNode& hf, Diagnostics& diagnostics) : hf_(hf), diagnostics_(diagnostics) {}

  ConfigNode Read() {
    const std::string architecture = ArchitectureName();
    if (!RefuseLatentAttention()) return {};
    const Family* family = FindFamily(architecture);
    if (family == nullptr) return {};
    if (!(family->has_experts ? RefuseMixedLayers() : RefuseExperts())) return {};
    const Architecture* variant = FindVariant(*family, architecture);
    if (variant == nullptr) return {};
    ConfigNode transformer = MakeMapping(hf_.place);
    for (const Row& row : family->rows) ReadRow(row, transformer);
    for (const Constant& c : family->constants) SetConstant(c, transformer);
    for (const Constant& c : variant->constants) SetConstant(c, transformer);
    if (has_problem_) return {};
    SetFfnSize(transformer);
    ConfigNode model = MakeMapping(hf_.place);
    model.Set("name", TypePlace(), MakeText(ModelName(family->model_type), TypePlace()));
    model.Set("transformer", hf_.place, std::move(transformer));
    return model;
  }

 private:
  void Report(const Place& place, std::string message) {
    diagnostics_.Add(place, std::move(message));
    has_problem_ = true;
  }

  const ConfigNode* Value(std::string_view key) const {
    const ConfigNode* value = hf_.FindValue(key);
    return value == nullptr || value->IsNull() ? nullptr : value;
  }

  Place TypePlace() const {
    for (const char* key : {"model_type", "architectures"}) {
      if (const ConfigEntry* entry = hf_.Find(key)) return entry->key_place;
    }
    return hf_.place;
  }

  std::string ArchitectureName() const {
    const ConfigNode* list = Value("architectures");
    if (list == nullptr || !list->IsSequence() || list->items.empty()) return "";
    return list->items[0].text;
  }

  const Family* FindFamily(const std::string& architecture) {
    const ConfigNode* type = Value("model_type");
    std::vector<std::string> names;
    for (const Family& family : Families()) {
      names.emplace_back(family.model_type);
      if (type != nullptr && type->text == family.model_type) return &family;
      const bool has_class =
          std::any_of(family.architectures.begin(), family.architectures.end(),
                      [&](const Architecture& a) { return a.name == architecture; });
      if (type == nullptr && has_class) return &family;
    }
    const std::string found =
        type != nullptr ? DescribeFound(*type) : DescribeFound(MakeText(architecture));
    const std::string nearest = type == nullptr ? "" : Nearest(type->text, names);
    Report(TypePlace(),
           fmt::format("model_type: found {}, allowed: {}{}", found, fmt::join(names, ", "),
                       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
    return nullptr;
  }

  // DeepSeek's compressed keys and values, whatever the type's version.
  bool RefuseLatentAttention() {
    const ConfigNode* rank = Value("kv_lora_rank");
    if (rank == nullptr) return true;
    Report(hf_.Find("kv_lora_rank")->key_place,
           fmt::format("kv_lora_rank: found {}, allowed: networks without it (multi-latent "
                       "attention is not supported)",
                       DescribeFound(*rank)));
    return false;
  }

  // Experts are in every layer, or left out of the leading ones.
  bool RefuseMixedLayers() {
    if (const ConfigNode* step = Value("decoder_sparse_step");
        step != nullptr && step->text != "1") {
      Report(hf_.Find("decoder_sparse_step")->key_place,
             fmt::format("decoder_sparse_step: found {}, allowed: 1", DescribeFound(*step)));
      return false;
    }
    const ConfigNode* dense = Value("mlp_only_layers");
    if (dense == nullptr || (dense->IsSequence() && dense->items.empty())) return true;
    Report(hf_.Find("mlp_only_layers")->key_place,
           "mlp_only_layers: found some, allowed: an empty list; leading ones: a model file with "
           "transformer.experts.dense_layers");
    return false;
  }

  // False when the network is a mixture of experts, whatever its type says.
  bool RefuseExperts() {
    for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      const ConfigNode* value = Value(key);
      if (value == nullptr || ParseInteger(value->text).value_or(2) <= 1) continue;
      Report(hf_.Find(key)->key_place,
             fmt::format("{}: found {}, allowed: networks without experts in this family (with: "
                         "mixtral, qwen2_moe, qwen3_moe)",
                         key, DescribeFound(*value)));
      return false;
    }
    return true;
  }

  const Architecture* FindVariant(const Family& family, const std::string& name) {
    if (name.empty()) return &family.architectures.front();
    std::vector<std::string_view> names;
    for (const Architecture& a : family.architectures) {
      if (a.name == name) return &a;
      names.push_back(a.name);
    }
    Report(hf_.Find("architectures")->value.place,
           fmt::format("architectures: found {}, allowed: {}", DescribeFound(MakeText(name)),
                       fmt::join(names, ", ")));
    return nullptr;
  }

  void ReadRow(const Row& row, ConfigNode& transformer) {
    const ConfigNode* value = Value(row.key);
    if (value != nullptr) {
      Check(row, *value);
      SetPath(transformer, row.field, *value, hf_.Find(row.key)->key_place);
    } else if (row.fallback == kNoDefault) {
      Report(hf_.place, fmt::format("{}: missing, allowed: {}", row.key, Allowed(row.kind)));
    } else if (row.fallback != kLeaveUnset) {
      SetConstant({row.field, row.fallback}, transformer);
    }
  }

  static std::string_view Allowed(ValueKind kind) {
    switch (kind) {
      case ValueKind::kCount:
        return "a whole number of at least 1";
      case ValueKind::kFlag:
        return "true, false";
      case ValueKind::kFraction:
        break;
    }
    return "a number from 0 to 1";
  }

  void Check(const Row& row, const ConfigNode& value) {
    const std::string text = value.is_quoted || !value.IsScalar() ? "" : value.text;
    bool is_right = false;
    switch (row.kind) {
      case ValueKind::kCount:
        is_right = ParseInteger(text).value_or(0) >= 1;
        break;
      case ValueKind::kFlag:
        is_right = text == "true" || text == "false";
        break;
      case ValueKind::kFraction: {
        const double number = ParseNumber(text).value_or(-1);
        is_right = number >= 0 && number <= 1;
      }
    }
    if (is_right) return;
    Report(value.place, fmt::format("{}: found {}{}, allowed: {}", row.key, DescribeFound(value),
                                    value.is_quoted ? " in quotes" : "", Allowed(row.kind)));
  }

  void SetConstant(const Constant& constant, ConfigNode& transformer) {
    SetPath(transformer, constant.field, MakePlain(std::string(constant.value), TypePlace()),
            TypePlace());
  }

  // GPT-2 leaves n_inner null for four times the width.
  void SetFfnSize(ConfigNode& transformer) {
    if (transformer.Find("ffn_size") != nullptr) return;
    const ConfigEntry* hidden = transformer.Find("hidden_size");
    constexpr std::int64_t kWidest = 1'000'000'000;
    const std::int64_t width = std::min(ParseInteger(hidden->value.text).value_or(0), kWidest);
    const Place place = hidden->key_place;  // Set may move the entry
    transformer.Set("ffn_size", place, MakePlain(fmt::format("{}", 4 * width), place));
  }

  // The name in the file, else the folder of a config.json, else the file.
  std::string ModelName(std::string_view model_type) const {
    const ConfigNode* name = Value("_name_or_path");
    if (name != nullptr && name->IsScalar() && !name->text.empty()) return name->text;
    std::string path = hf_.place.file;
    path = path.substr(0, path.rfind('.'));
    const std::size_t slash = path.find_last_of('/');
    std::string stem = slash == std::string::npos ? path : path.substr(slash + 1);
    if (stem != "config") return stem.empty() ? std::string(model_type) : stem;
    if (slash == std::string::npos || slash == 0) return std::string(model_type);
    path.resize(slash);
    return path.substr(path.find_last_of('/') + 1);
  }

  const ConfigNode& hf_;
  Diagnostics& diagnostics_;
  bool has_problem_ = false;
};

}  // namespace

bool IsHfConfig(const ConfigNode& node) {
  return node.Find("model_type") != nullptr || node.Find("architectures") != nullptr;
}

ConfigNode ModelFromHfConfig(const ConfigNode& hf, Diagnostics& diagnostics) {
  return HfReader(hf, diagnostics).Read();
}

}  // namespace stepsim
