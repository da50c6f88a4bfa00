// Which network was it? Its dimensions are columns; what no column says (positions, norms, biases,
// ties, sizes of heads) follows from the family that the model's name belongs to.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/validation/mapping.h"

namespace stepsim {
namespace {

struct FamilyRule {
  std::string_view words;     // of the model's name
  std::string_view settings;  // below model.transformer
  std::int64_t vocab;         // where the row has none; 0: not known
  std::string_view why;
};

constexpr std::string_view kGpt =
    "positions=learned; norm=layer_norm; qkv_bias=true; output_bias=true; mlp_bias=true; "
    "tied_embeddings=true";
constexpr std::string_view kLlama = "positions=rotary; norm=rms_norm";

// The first row that matches.
constexpr std::array kFamilies = {
    FamilyRule{
        "bert",
        "positions=learned; norm=layer_norm; qkv_bias=true; output_bias=true; mlp_bias=true; "
        "tied_embeddings=true; causal=false; dropout=0.1; token_types=2; "
        "embedding_norm=true; final_norm=false; pooler=true; mlm_head=true; "
        "next_sentence_head=true; vocab_multiple=8",
        30522, "google-research/bert, BertForPreTraining"},
    FamilyRule{"bloom",
               "positions=none; norm=layer_norm; qkv_bias=true; output_bias=true; mlp_bias=true; "
               "tied_embeddings=true; embedding_norm=true",
               250680, "BLOOM: ALiBi, a norm behind the embedding"},
    FamilyRule{
        "mpt", kGpt, 50368,
        "llm-foundry's MPT: its published parameters are those of GPT with biases and learned "
        "positions to the last element"},
    FamilyRule{"nemotron4", "positions=rotary; norm=layer_norm", 256000,
               "Nemotron-4 15B report: rotary positions, no biases, untied"},
    FamilyRule{"nemotron", "positions=rotary; norm=layer_norm", 256000, "as Nemotron-4"},
    FamilyRule{"qwen3", "positions=rotary; norm=rms_norm; head_dim=128; qk_norm=true", 151936,
               "Qwen3's config.json"},
    FamilyRule{"gpt_oss",
               "positions=rotary; norm=rms_norm; head_dim=64; qkv_bias=true; "
               "output_bias=true",
               201088,
               "gpt-oss' config.json; its windows of every second layer count as full attention"},
    FamilyRule{"llama2", kLlama, 32000, "Llama 2's config.json"},
    FamilyRule{"llama3", kLlama, 128256, "Llama 3's config.json"},
    FamilyRule{"llama", kLlama, 32000, "Llama 2's config.json"},
    FamilyRule{"mixtral", kLlama, 32000, "Mixtral's config.json"},
    FamilyRule{"grok", kLlama, 131072, "Grok-1's release"},
    FamilyRule{"gpt2", kGpt, 50257, "GPT-2's config.json"},
    FamilyRule{"gpt", kGpt, 50257, "Megatron-LM's GPT with GPT-2's vocabulary"},
};

// What the simulator has no layers for.
struct RefusedRule {
  std::string_view words, why;
};
constexpr std::array kRefused = {
    RefusedRule{"deepseek", "multi-latent attention is not simulated"},
    RefusedRule{"kimi", "multi-latent attention is not simulated"},
    RefusedRule{"moonlight", "multi-latent attention is not simulated"},
    RefusedRule{"nemotron_h", "Mamba layers are not simulated"},
    RefusedRule{"nemotron_3", "Mamba layers are not simulated"},
    RefusedRule{"llama4", "experts in every second layer and chunked attention are not simulated"},
    RefusedRule{"gnmt", "recurrent networks are not simulated"},
    RefusedRule{"transformer_xl", "attention to a memory of earlier segments is not simulated"},
    RefusedRule{"transformer_big", "encoder-decoder networks are not simulated"},
    RefusedRule{"bart", "encoder-decoder networks are not simulated"},
    RefusedRule{"t5", "encoder-decoder networks are not simulated"},
    RefusedRule{"ssd", "no description of this network"},
    RefusedRule{"wan2", "diffusion networks are not simulated"},
};

// Networks that are lists of layers in configs/models.
struct ListedRule {
  std::string_view words, model;
};
constexpr std::array kListed = {
    ListedRule{"resnet_50", "resnet-50"}, ListedRule{"resnet50", "resnet-50"},
    ListedRule{"resnet_18", "resnet-18"}, ListedRule{"resnet18", "resnet-18"}};

// Dimensions of published networks whose rows give the name alone.
struct NamedDimensions {
  std::string_view words;
  std::int64_t layers, hidden, heads, kv_heads, ffn;
  std::string_view why;
};
constexpr std::array kNamed = {
    NamedDimensions{"gpt3_5b", 24, 4096, 32, 32, 16384, "NeMo-Framework-Launcher gpt3/5b.yaml"},
    NamedDimensions{"gpt3_20b", 44, 6144, 48, 48, 24576, "NeMo-Framework-Launcher gpt3/20b.yaml"},
    NamedDimensions{"gpt2_124m", 12, 768, 12, 12, 3072, "GPT-2's config.json"},
};

template <class Rules>
auto FindWords(std::string_view model, const Rules& rules) {
  const std::string plain = PlainWords(model);
  for (const auto& rule : rules) {
    if (MatchesWords(plain, rule.words)) return &rule;
  }
  return static_cast<decltype(&rules[0])>(nullptr);
}

constexpr std::string_view kTransformer = "model.transformer.";

class Transformer {
 public:
  explicit Transformer(RowJob& job)
      : job_(job), row_(job.row()), named_(FindWords(row_.Text("model"), kNamed)) {}

  void Map() {
    const FamilyRule* family = FindWords(row_.Text("model"), kFamilies);
    const bool is_gated = MapGated(family);
    if (family != nullptr) {
      Apply(family->settings);
    } else {
      Apply(is_gated ? kLlama : kGpt);
      job_.Assume("model: a plain decoder", "no family of that name");
    }
    Set("layers", Dimension("n_layers", named_ ? named_->layers : 0));
    const std::int64_t hidden =
        Set("hidden_size", Dimension("hidden", named_ ? named_->hidden : 0));
    const std::int64_t heads = Set("heads", Dimension("n_heads", named_ ? named_->heads : 0));
    Set("kv_heads", job_.Integer("n_kv_heads", named_ ? named_->kv_heads : heads));
    MapMlp(hidden, is_gated);
    MapVocabulary(family);
    if (!job_.Has("model.transformer.positions")) return;
    if (job_.root().FindValue("model")->FindValue("transformer")->FindValue("positions")->text ==
        "learned") {
      Set("max_positions", std::max<std::int64_t>(job_.Integer("seq_len", 512), 512));
    }
  }

 private:
  void Apply(std::string_view settings) {
    for (const auto& [key, value] : ParseRuleSettings(settings)) {
      job_.Set(std::string(kTransformer) + key, value);
    }
  }
  std::int64_t Set(std::string_view key, std::int64_t value) {
    job_.SetInteger(std::string(kTransformer) + std::string(key), value);
    return value;
  }
  std::int64_t Dimension(std::string_view column, std::int64_t named) {
    if (row_.IsFilled(column)) return job_.Integer(column, 1);
    if (named == 0) {
      job_.Skip(column, "not stated");
      return 1;
    }
    job_.Assume(fmt::format("{}: {}", column, named), named_->why);
    return named;
  }

  bool MapGated(const FamilyRule* family) {
    const std::string_view text = row_.Text("gated_mlp");
    bool is_gated = text == "y";
    if (text.empty()) {
      is_gated = family != nullptr && family->settings == kLlama;
      job_.Assume(fmt::format("gated_mlp: {}", is_gated ? "y" : "n"), "as its family");
    } else if (text != "y" && text != "n") {
      job_.Skip("gated_mlp", fmt::format("found '{}', allowed: y, n", text));
    }
    job_.Set("model.transformer.gated_mlp", is_gated ? "true" : "false");
    return is_gated;
  }

  void MapMlp(std::int64_t hidden, bool is_gated) {
    const bool has_experts = row_.IsFilled("n_experts");
    if (has_experts) {
      Set("experts.count", job_.Integer("n_experts", 1));
      Set("experts.top_k", job_.Integer("top_k", 1));
      if (!row_.IsFilled("top_k")) job_.Skip("top_k", "not stated");
      const std::int64_t width = job_.Integer("moe_ffn_hidden", job_.Integer("ffn_hidden", 0));
      if (width == 0) job_.Skip("moe_ffn_hidden", "not stated");
      Set("experts.ffn_size", std::max<std::int64_t>(width, 1));
    }
    std::int64_t ffn = job_.Integer("ffn_hidden", named_ ? named_->ffn : 0);
    if (ffn == 0 && has_experts) ffn = job_.Integer("moe_ffn_hidden", 0);  // of no layer
    if (ffn == 0 && !is_gated) {
      ffn = 4 * hidden;
      job_.Assume(fmt::format("ffn_hidden: {}", ffn), "4 x hidden");
    }
    if (ffn == 0) job_.Skip("ffn_hidden", "not stated");
    Set("ffn_size", std::max<std::int64_t>(ffn, 1));
  }

  void MapVocabulary(const FamilyRule* family) {
    std::int64_t vocab = job_.Integer("vocab", 0);
    if (vocab == 0) {
      vocab = family != nullptr ? family->vocab : 50257;
      job_.Assume(fmt::format("vocab: {}", vocab), family != nullptr ? family->why : "GPT-2's");
    }
    Set("vocab_size", vocab);
  }

  RowJob& job_;
  const PublishedRow& row_;
  const NamedDimensions* named_;
};

// What the software makes of a network.
constexpr std::array kOfStack = {
    TextRule{"megatron", "model.transformer.vocab_multiple=128",
             "--make-vocab-size-divisible-by 128"},
    TextRule{"deepspeed 3d", "model.transformer.vocab_multiple=128", "as Megatron-LM"},
    TextRule{"nemo", "model.transformer.vocab_multiple=128", "as Megatron-LM"},
    TextRule{"=megatron deepspeed", "model.transformer.dropout=0.1", "Megatron-LM's default"},
    TextRule{"=megatron 2021", "model.transformer.dropout=0.1", "Megatron-LM's default"},
    TextRule{"deepspeed 3d", "model.transformer.dropout=0.1", "Megatron-LM's default"},
};

}  // namespace

void MapNetwork(RowJob& job) {
  const std::string_view model = job.row().Text("model");
  if (const auto* refused = FindWords(model, kRefused)) {
    return job.Skip("model", fmt::format("found '{}': {}", model, refused->why));
  }
  job.Set("model.name", model.empty() ? "network" : std::string(model));
  if (const auto* listed = FindWords(model, kListed)) {
    return job.Set("model.base", std::string(listed->model));
  }
  Transformer(job).Map();
  for (const TextRule& rule : kOfStack) {
    if (MatchesWords(job.stack, rule.words)) job.Apply(rule);
  }
}

}  // namespace stepsim
