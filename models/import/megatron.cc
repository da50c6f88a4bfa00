// Megatron-LM: the arguments of a launch script, network included.
//
//   --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096
//   --micro-batch-size 1 --global-batch-size 512 --bf16 --use-distributed-optimizer
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/import/argument_list.h"
#include "models/import/layer_split.h"
#include "models/import/megatron_keys.h"

namespace stepsim {
namespace {

const KeyRow* FindRow(std::string_view key) {
  const std::vector<KeyRow>& rows = MegatronRows();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const KeyRow& row) { return row.key == key; });
  return found == rows.end() ? nullptr : &*found;
}

// Variables of the environment that change a step.
bool IsSetting(std::string_view name) {
  return name == "CUDA_DEVICE_MAX_CONNECTIONS" || name.substr(0, 5) == "NCCL_";
}

class MegatronReader {
 public:
  MegatronReader(const ConfigNode& root, ImportedJob& job, Diagnostics& problems)
      : keys_(root, MegatronRows(), job, problems), job_(job) {}

  void Read() {
    AssumeDefaults();
    keys_.ReadRows();
    keys_.Set("plan.strategy", "megatron");
    ReadModel();
    ReadPrecision();
    ReadKernels();
    ReadRecomputation();
    ReadTensor();
    ReadPipeline();
    for (const char* key : {"seq-length", "micro-batch-size"}) {
      if (Has(key)) continue;
      const bool is_length = key[0] == 's';
      job_.needs.push_back({is_length ? "batch.sequence_length" : "batch.micro_batch_size",
                            is_length ? "4096" : "1", ""});
    }
    ReadClipping();
  }

 private:
  bool Has(std::string_view key) const { return keys_.Find(key) != nullptr; }

  // Apex' fused optimizer and Transformer Engine's kernels.
  void AssumeDefaults() {
    keys_.Assume("optimizer", "adamw");
    keys_.Assume("optimizer_impl", "fused");
    keys_.Assume("kernels", "fused");
  }

  // ---- The network ----

  void ReadModel() {
    constexpr std::array<std::string_view, 3> kNeeded = {"num-layers", "hidden-size",
                                                         "num-attention-heads"};
    std::vector<std::string_view> missing;
    for (const std::string_view key : kNeeded) {
      if (!Has(key)) missing.push_back(key);
    }
    if (missing.size() == kNeeded.size()) return job_.needs.push_back({"model", "llama-3-8b", ""});
    for (const std::string_view key : missing) {
      keys_.Report(key, "missing, allowed: a whole number");
    }
    if (!missing.empty()) return;
    transformer_ = MakeMapping({job_.file, 0, 0});
    SetShape();
    SetVocabulary();
    SetKinds();
    ConfigNode model = MakeMapping({job_.file, 0, 0});
    model.Set("name", {job_.file, 0, 0},
              MakeText(fmt::format("gpt, {} layers of {}", keys_.Word("num-layers", ""),
                                   keys_.Word("hidden-size", ""))));
    model.Set("transformer", {job_.file, 0, 0}, std::move(transformer_));
    keys_.Set("model", std::move(model), "num-layers");
  }

  void Put(std::string_view field, std::string value, std::string_view key) {
    const Place place = keys_.PlaceOf(key);
    transformer_.Set(field, place, MakePlain(std::move(value), place));
  }
  void PutSwitch(std::string_view field, bool value, std::string_view key) {
    Put(field, value ? "true" : "false", key);
  }

  void SetShape() {
    constexpr std::int64_t kWidest = 1'000'000'000;
    const std::int64_t hidden = std::clamp<std::int64_t>(keys_.Count("hidden-size", 1), 0, kWidest);
    Put("layers", keys_.Word("num-layers", ""), "num-layers");
    Put("hidden_size", keys_.Word("hidden-size", ""), "hidden-size");
    Put("heads", keys_.Word("num-attention-heads", ""), "num-attention-heads");
    if (Has("group-query-attention")) {
      Put("kv_heads", fmt::format("{}", keys_.Count("num-query-groups", 1)), "num-query-groups");
    } else if (Has("num-query-groups")) {
      keys_.AddUnused("num-query-groups", "only with --group-query-attention");
    }
    if (Has("kv-channels")) Put("head_dim", keys_.Word("kv-channels", ""), "kv-channels");
    // Two thirds of it with a gate, in multiples of 64.
    const bool is_gated = Has("swiglu");
    const std::int64_t width = is_gated ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden;
    Put("ffn_size", fmt::format("{}", keys_.Count("ffn-hidden-size", width)), "ffn-hidden-size");
    PutSwitch("gated_mlp", is_gated, "swiglu");
    SetExperts();
  }

  // An expert is as wide as the MLP unless it says its own width; tokens go to two of them.
  void SetExperts() {
    constexpr std::string_view kCount = "num-experts";
    if (!Has(kCount)) return;
    ConfigNode experts = MakeMapping(keys_.PlaceOf(kCount));
    const auto put = [&](std::string_view field, std::string_view key, std::string_view fallback) {
      if (!Has(key) && fallback.empty()) return;
      const Place place = keys_.PlaceOf(key);
      experts.Set(field, place, MakePlain(keys_.Word(key, fallback), place));
    };
    put("count", kCount, "");
    put("top_k", "moe-router-topk", "2");
    put("ffn_size", "moe-ffn-hidden-size", "");
    put("shared_ffn_size", "moe-shared-expert-intermediate-size", "");
    transformer_.Set("experts", keys_.PlaceOf(kCount), std::move(experts));
    if (!Has("moe-token-dispatcher-type")) keys_.Assume("plan.expert.dispatcher", "allgather");
    if (has_bias()) {
      keys_.Report(kCount, fmt::format("found {} experts without --disable-bias-linear, allowed: "
                                       "with it; products of experts have no biases",
                                       keys_.Word(kCount, "")));
    }
  }
  bool has_bias() const { return !Has("disable-bias-linear"); }

  // Rows that the tokenizer knows, padded. The null tokenizer adds one for the end of a document.
  void SetVocabulary() {
    constexpr std::string_view kPadded = "padded-vocab-size";
    if (Has(kPadded)) {
      Put("vocab_size", keys_.Word(kPadded, ""), kPadded);
      return;
    }
    const std::string tokenizer = keys_.Word("tokenizer-type", "");
    constexpr std::int64_t kGpt2 = 50257;
    if (Has("vocab-size")) {
      const std::int64_t extra = tokenizer == "NullTokenizer" ? 1 : 0;
      const std::int64_t size = std::min<std::int64_t>(keys_.Count("vocab-size", 1), 1'000'000'000);
      Put("vocab_size", fmt::format("{}", size + extra), "vocab-size");
    } else if (tokenizer == "GPT2BPETokenizer") {
      Put("vocab_size", fmt::format("{}", kGpt2), "tokenizer-type");
    } else {
      job_.needs.push_back({"model.transformer.vocab_size", "128256",
                            tokenizer.empty() ? "" : fmt::format("{} knows it", tokenizer)});
    }
    Put("vocab_multiple", fmt::format("{}", keys_.Count("make-vocab-size-divisible-by", 128)),
        "make-vocab-size-divisible-by");
  }

  void SetKinds() {
    constexpr std::array kPositions = {WordPair{"learned_absolute", "learned"},
                                       WordPair{"rope", "rotary"}, WordPair{"none", "none"}};
    constexpr std::array kNorms = {WordPair{"LayerNorm", "layer_norm"},
                                   WordPair{"RMSNorm", "rms_norm"}};
    constexpr std::string_view kOldRope = "use-rotary-position-embeddings";
    constexpr std::string_view kType = "position-embedding-type";
    const std::string positions =
        keys_.Word(kType, Has(kOldRope) ? "rotary" : "learned", kPositions);
    Put("positions", positions, Has(kType) ? kType : kOldRope);
    if (positions == "learned" && Has("max-position-embeddings")) {
      Put("max_positions", keys_.Word("max-position-embeddings", ""), "max-position-embeddings");
    } else if (Has("max-position-embeddings")) {
      keys_.AddUnused("max-position-embeddings", "only with learned positions");
    }
    Put("norm", keys_.Word("normalization", "layer_norm", kNorms), "normalization");
    PutSwitch("tied_embeddings", !Has("untie-embeddings-and-output-weights"),
              "untie-embeddings-and-output-weights");
    PutSwitch("qkv_bias", has_bias() || Has("add-qkv-bias"), "disable-bias-linear");
    PutSwitch("output_bias", has_bias(), "disable-bias-linear");
    PutSwitch("mlp_bias", has_bias() && !Has("num-experts"), "disable-bias-linear");
    Put("dropout", keys_.Word("hidden-dropout", "0.1"), "hidden-dropout");
  }

  // ---- The rest ----

  void ReadPrecision() {
    const bool is_bf16 = Has("bf16");
    if (is_bf16 && Has("fp16")) {
      return keys_.Report("fp16", "found beside --bf16, allowed: one of the two");
    }
    keys_.Set("precision.compute",
              is_bf16       ? "bf16"
              : Has("fp16") ? "fp16"
                            : "fp32",
              is_bf16 ? "bf16" : "fp16");
  }

  // Transformer Engine and flash-attn keep the scores on the chip; Megatron's own attention does
  // not.
  void ReadKernels() {
    constexpr std::array kBackends = {WordPair{"auto", "flash"}, WordPair{"flash", "flash"},
                                      WordPair{"fused", "flash"}, WordPair{"unfused", "unfused"},
                                      WordPair{"local", "unfused"}};
    constexpr std::array kImplementations = {WordPair{"transformer_engine", "flash"},
                                             WordPair{"local", "unfused"}};
    constexpr std::string_view kImpl = "transformer-impl";
    constexpr std::string_view kBackend = "attention-backend";
    if (Has("use-flash-attn")) return keys_.Set("attention", "flash", "use-flash-attn");
    const std::string by_impl = keys_.Word(kImpl, "flash", kImplementations);
    if (Has(kBackend)) {
      return keys_.Set("attention", keys_.Word(kBackend, by_impl, kBackends), kBackend);
    }
    if (Has(kImpl)) return keys_.Set("attention", by_impl, kImpl);
    keys_.Assume("attention", "flash");
  }

  void ReadRecomputation() {
    constexpr std::string_view kGranularity = "recompute-granularity";
    constexpr std::array kGranularities = {WordPair{"full", "full"},
                                           WordPair{"selective", "selective"}};
    const bool is_short = Has("recompute-activations");
    if (!is_short && !Has(kGranularity)) {
      for (const char* key : {"recompute-method", "recompute-num-layers", "recompute-modules"}) {
        if (Has(key)) keys_.AddUnused(key, "only with --recompute-granularity");
      }
      return;
    }
    const std::string granularity = keys_.Word(kGranularity, "selective", kGranularities);
    keys_.Set("recompute.granularity", granularity,
              Has(kGranularity) ? kGranularity : "recompute-activations");
    if (granularity == "full") {
      constexpr std::array kMethods = {WordPair{"uniform", "uniform"}, WordPair{"block", "block"}};
      keys_.Set("recompute.method", keys_.Word("recompute-method", "uniform", kMethods),
                "recompute-method");
      keys_.Set("recompute.num_layers", keys_.Count("recompute-num-layers", 1),
                "recompute-num-layers");
    } else {
      ReadModules();
    }
  }

  void ReadModules() {
    constexpr std::string_view kModules = "recompute-modules";
    keys_.Set("recompute.policy", "modules", kModules);
    const ConfigNode* value = keys_.Find(kModules);
    if (value == nullptr) return;
    std::vector<std::string> names;
    for (const ConfigNode& item : value->items) names.push_back(LowerText(item));
    if (value->IsScalar()) names.push_back(LowerText(*value));
    constexpr std::array<std::string_view, 3> kKnown = {"core_attn", "mlp", "layernorm"};
    for (const std::string& name : names) {
      if (std::count(kKnown.begin(), kKnown.end(), name) > 0) continue;
      keys_.Report(kModules, fmt::format("found '{}', allowed: {}; other modules are not simulated",
                                         name, fmt::join(kKnown, ", ")));
    }
    for (const std::string_view known : kKnown) {
      const bool is_on = std::count(names.begin(), names.end(), known) > 0;
      keys_.Set(fmt::format("recompute.modules.{}", known), is_on ? "true" : "false", kModules);
    }
  }

  // ---- Model parallelism ----

  bool IsAbove1(std::string_view degree) const { return keys_.Count(degree, 1) > 1; }

  void ReadTensor() {
    constexpr std::string_view kSequence = "sequence-parallel";
    constexpr std::string_view kOverlap = "tp-comm-overlap";
    constexpr std::string_view kNoAsync = "no-async-tensor-model-parallel-allreduce";
    if (!IsAbove1("tensor-model-parallel-size")) {
      for (const std::string_view key : {kSequence, kOverlap, kNoAsync}) {
        if (Has(key)) keys_.AddUnused(key, "only with tensor parallelism");
      }
      return;
    }
    keys_.Set("plan.tensor.sequence_parallel", Has(kSequence) ? "true" : "false", kSequence);
    if (Has(kOverlap)) keys_.Set("plan.tensor.overlap", "user_buffers", kOverlap);
    if (!Has(kNoAsync)) return;
    if (Has(kSequence)) return keys_.AddUnused(kNoAsync, "sequence parallelism overlaps anyway");
    keys_.Set("plan.tensor.async_input_gradient", "false", kNoAsync);
    job_.remarks.push_back(fmt::format(
        "--{} is taken at its word; newer versions of Megatron-LM ignore it", kNoAsync));
  }

  void ReadPipeline() {
    constexpr std::array<std::string_view, 7> kKeys = {kLayout, kEach,      kChunks, kFirst,
                                                       kLast,   kEmbedding, kLoss};
    constexpr std::int64_t kMost = 1'000'000;
    split_.ranks = keys_.Count("pipeline-model-parallel-size", 1);
    if (split_.ranks <= 1) {
      for (const std::string_view key : kKeys) {
        if (Has(key)) keys_.AddUnused(key, "only with pipeline parallelism");
      }
      return;
    }
    if (!Has("num-layers")) return ReadChunksAlone();
    split_.layers = keys_.Count("num-layers", 0);
    split_.counts_embedding = Has(kEmbedding);
    split_.counts_loss = Has(kLoss);
    // The job's own rules report such numbers.
    if (split_.layers < 1 || std::max(split_.layers, split_.ranks) > kMost) return;
    if (Has(kLayout)) return ReadLayout();
    if (!ReadChunks()) return;
    SetChunks(Has(kEach) ? kEach : kChunks);
    ReadSplit();
  }

  // Of a network that the file does not describe.
  void ReadChunksAlone() {
    for (const std::string_view key : {kLayout, kEach, kFirst, kLast, kEmbedding, kLoss}) {
      if (Has(key)) keys_.Report(key, "found without --num-layers, allowed: beside it");
    }
    if (ReadChunks()) SetChunks(kChunks);
  }

  // A string says all; nothing else may.
  void ReadLayout() {
    for (const std::string_view key : {kEach, kChunks, kFirst, kLast, kEmbedding, kLoss}) {
      if (!Has(key)) continue;
      return keys_.Report(key, fmt::format("found beside --{}, allowed: one of the two", kLayout));
    }
    const std::int64_t ranks = split_.ranks;
    StageLayers stages = ReadMegatronLayout(keys_.Word(kLayout, ""), split_.layers);
    const auto count = static_cast<std::int64_t>(stages.layers.size());
    if (stages.problem.empty() && count % ranks != 0) {
      stages.problem = fmt::format("found {} stages, allowed: a multiple of the {} pipeline ranks",
                                   count, ranks);
    }
    if (!stages.problem.empty()) return keys_.Report(kLayout, stages.problem);
    split_.chunks = count / ranks;
    SetChunks(kLayout);
    keys_.Set("plan.pipeline.layers_per_stage", stages.layers, kLayout);
  }

  // false: reported.
  bool ReadChunks() {
    constexpr std::int64_t kMostChunks = 1000;
    split_.chunks = keys_.Count(kChunks, 1);
    if (split_.chunks < 1 || split_.chunks > kMostChunks) {
      keys_.Report(kChunks, fmt::format("found {}, allowed: a whole number from 1 to {}",
                                        split_.chunks, kMostChunks));
      return false;
    }
    if (!Has(kEach) || !Has("num-layers")) return true;
    if (Has(kChunks) || Has(kFirst) || Has(kLast)) {
      keys_.Report(kEach, fmt::format("found beside --{}, allowed: --{} alone says the chunks",
                                      Has(kChunks)  ? kChunks
                                      : Has(kFirst) ? kFirst
                                                    : kLast,
                                      kChunks));
      return false;
    }
    const std::int64_t each = keys_.Count(kEach, 1);
    const std::int64_t dealt =
        split_.layers + (split_.counts_embedding ? 1 : 0) + (split_.counts_loss ? 1 : 0);
    if (each < 1 || each > dealt || dealt % (split_.ranks * each) != 0) {
      keys_.Report(kEach, fmt::format("found {}, allowed: a number that divides the layers of a "
                                      "rank ({} / {})",
                                      each, dealt, split_.ranks));
      return false;
    }
    split_.chunks = dealt / (split_.ranks * each);
    return true;
  }

  void SetChunks(std::string_view key) {
    if (split_.chunks == 1) return;
    keys_.Set("plan.pipeline.schedule", "interleaved_1f1b", key);
    keys_.Set("plan.pipeline.virtual_stages", split_.chunks, key);
  }

  // First and last rank may have layers of their own number, or embedding and loss count as one.
  void ReadSplit() {
    const auto count = [&](std::string_view key) {
      return Has(key) ? std::optional(keys_.Count(key, 1)) : std::nullopt;
    };
    split_.first = count(kFirst);
    split_.last = count(kLast);
    const std::string_view told = Has(kFirst) ? kFirst : kLast;
    const std::string_view ends = Has(kEmbedding) ? kEmbedding : kLoss;
    if (Has(told) && Has(ends)) {
      return keys_.Report(told, fmt::format("found beside --{}, allowed: one of the two", ends));
    }
    if (Has(kEmbedding) && Has(kLoss)) {
      return keys_.Set("plan.pipeline.balance", "ends", kEmbedding);
    }
    if (!Has(told) && !Has(ends)) return;
    const std::string_view key = Has(told) ? told : ends;
    for (const auto& layers : {split_.first, split_.last}) {
      if (!layers || (*layers >= 1 && *layers <= split_.layers)) continue;
      return keys_.Report(key, fmt::format("found {}, allowed: a whole number from 1 to the {} "
                                           "layers",
                                           *layers, split_.layers));
    }
    const StageLayers stages = DealMegatron(split_);
    if (!stages.problem.empty()) return keys_.Report(key, stages.problem);
    keys_.Set("plan.pipeline.layers_per_stage", stages.layers, key);
  }

  // On unless 0. One copy of the network on one GPU is simulated without it.
  void ReadClipping() {
    constexpr std::string_view kClip = "clip-grad";
    const std::string norm = keys_.Word(kClip, "1.0");
    if (norm == "0" || norm == "0.0") return keys_.Set("plan.clip_gradients", "false", kClip);
    for (const char* degree : {"tensor-model-parallel-size", "pipeline-model-parallel-size",
                               "context-parallel-size", "expert-model-parallel-size"}) {
      if (IsAbove1(degree)) return keys_.Set("plan.clip_gradients", "true", kClip);
    }
    job_.remarks.emplace_back("clipping of the gradients (--clip-grad) is not simulated");
  }

  static constexpr std::string_view kLayout = "pipeline-model-parallel-layout";
  static constexpr std::string_view kEach = "num-layers-per-virtual-pipeline-stage";
  static constexpr std::string_view kChunks = "num-virtual-stages-per-pipeline-rank";
  static constexpr std::string_view kFirst = "decoder-first-pipeline-num-layers";
  static constexpr std::string_view kLast = "decoder-last-pipeline-num-layers";
  static constexpr std::string_view kEmbedding = "account-for-embedding-in-pipeline-split";
  static constexpr std::string_view kLoss = "account-for-loss-in-pipeline-split";

  KeyReader keys_;
  ImportedJob& job_;
  ConfigNode transformer_;
  MegatronSplit split_;
};

// What a script's variable would have said is not known: reported, and taken out. Where the value
// does not matter it may be one.
ConfigNode WithoutVariables(ConfigNode root, Diagnostics& problems) {
  std::vector<ConfigEntry> kept;
  for (ConfigEntry& entry : root.entries) {
    const KeyRow* row = FindRow(entry.key);
    const bool matters = row != nullptr && row->use != KeyRow::Use::kNoEffect;
    if (!matters || entry.value.text.find('$') == std::string::npos) {
      kept.push_back(std::move(entry));
      continue;
    }
    problems.Add(entry.value.place,
                 fmt::format("{}: found {}, which this file does not set, allowed: a value",
                             entry.key, DescribeFound(entry.value)));
  }
  root.entries = std::move(kept);
  return root;
}

}  // namespace

ImportedJob ImportMegatron(const SourceFile& file, const ImportSurroundings&,
                           Diagnostics& problems) {
  ImportedJob job;
  job.framework = "megatron";
  job.file = file.name;
  job.needs = {{"hardware", "h100-sxm-dgx", ""}, {"nodes", "2", ""}};
  const ArgumentRules rules = {[](std::string_view key) {
                                 const KeyRow* row = FindRow(key);
                                 return row != nullptr && row->is_switch;
                               },
                               IsSetting};
  const ConfigNode root = WithoutVariables(ReadArguments(file.text, file.name, rules), problems);
  MegatronReader(root, job, problems).Read();
  return job;
}

}  // namespace stepsim
