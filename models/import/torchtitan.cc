// torchtitan: a job configuration in TOML, of versions with and without a [parallelism] table.
//
//   [training]
//   local_batch_size = 1
//   seq_len = 8192
//   [parallelism]
//   data_parallel_shard_degree = -1      # FSDP2 over all ranks that are left
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/import/key_reader.h"
#include "models/import/layer_split.h"
#include "models/import/torchtitan_keys.h"
#include "sim/config/read_toml.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMostRanks = 10'000'000;
constexpr std::array kDtypes = {WordPair{"bfloat16", "bf16"}, WordPair{"float32", "fp32"}};

// torchtitan's own models that configs/models has.
struct Flavor {
  std::string_view name, flavor, model;
  std::int64_t layers;
};
constexpr std::array kFlavors = {
    Flavor{"llama3", "8B", "llama-3-8b", 32},        Flavor{"llama3", "70B", "llama-3-70b", 80},
    Flavor{"llama3", "405B", "llama-3-405b", 126},   Flavor{"llama2", "7B", "llama-2-7b", 32},
    Flavor{"llama2", "13B", "llama-2-13b", 40},      Flavor{"llama2", "70B", "llama-2-70b", 80},
    Flavor{"qwen3", "30B-A3B", "qwen3-30b-a3b", 48},
};

class TorchtitanReader {
 public:
  TorchtitanReader(const ConfigNode& root, const ImportSurroundings& surroundings, ImportedJob& job,
                   Diagnostics& problems)
      : keys_(root, TorchtitanRows(), job, problems), gpus_(surroundings.gpus), job_(job) {}

  void Read() {
    AssumeDefaults();
    keys_.ReadRows();
    ReadModel();
    ReadPrecision();
    ReadCompile();
    ReadDegrees();
    ReadParallelism();
    ReadTensor();
    ReadExperts();
    ReadBatch();
    ReadSplit();
    ReadOverlap();
    ReadGlobalBatch();
    ReadRecomputation();
    if (keys_.Find("training.max_norm") != nullptr && ModelRanks() > 1) {
      keys_.Set("plan.clip_gradients", "true", "training.max_norm");
    } else if (keys_.Find("training.max_norm") != nullptr) {
      job_.remarks.emplace_back("clipping of the gradients (training.max_norm) is not simulated");
    }
  }

 private:
  // What torchtitan takes where the file is silent.
  void AssumeDefaults() {
    keys_.Assume("batch.micro_batch_size", "8");
    keys_.Assume("batch.sequence_length", "2048");
    keys_.Assume("optimizer", "adamw");
    keys_.Assume("optimizer_impl", "fused");
    keys_.Assume("precision.parameters", "fp32");
  }

  void ReadModel() {
    const std::string name = keys_.Word("model.name", "llama3");
    const std::string flavor = keys_.Word("model.flavor", "debugmodel");
    for (const Flavor& row : kFlavors) {
      if (row.name == name && row.flavor == flavor) {
        keys_.Set("model", MakeText(std::string(row.model)), "model.flavor");
        is_shipped_ = true;
        layers_ = row.layers;
        return;
      }
    }
    job_.needs.push_back({"model", "llama-3-8b"});
    job_.remarks.push_back(fmt::format(
        "{} {} is not among the shipped models: JOB or --set says which one it is", name, flavor));
  }

  void ReadPrecision() {
    const std::string compute = keys_.Word("training.mixed_precision_param", "bf16", kDtypes);
    SetOrAssume("precision.compute", compute, "training.mixed_precision_param");
  }

  // torch.compile of each transformer block.
  void ReadCompile() {
    const std::string_view key = keys_.FirstOf({"compile.enable", "training.compile"});
    const bool is_asked = !key.empty() && keys_.Flag(key, false);
    const bool is_on = is_asked && Compiles("model");
    if (is_on && !Compiles("loss")) keys_.Set("loss", "eager", "compile.components");
    if (is_asked && !is_on && Compiles("loss")) keys_.Set("loss", "compiled", "compile.components");
    compiles_model_ = is_on;
    if (key.empty()) {
      keys_.Assume("kernels", "eager");
    } else {
      keys_.Set("kernels", is_on ? "compiled" : "eager", key);
    }
  }
  bool Compiles(std::string_view part) const {
    const ConfigNode* components = keys_.Find("compile.components");
    if (components == nullptr) return true;
    for (const ConfigNode& item : components->items) {
      if (LowerText(item) == part) return true;
    }
    return LowerText(*components).find(part) != std::string::npos;
  }

  // Whole layers, every n-th layer, or all but the results of some operators.
  void ReadRecomputation() {
    constexpr std::string_view kMode = "activation_checkpoint.mode";
    constexpr std::string_view kOption = "activation_checkpoint.selective_ac_option";
    constexpr std::array kModes = {WordPair{"none", "none"}, WordPair{"selective", "selective"},
                                   WordPair{"full", "full"}};
    const std::string mode = keys_.Word(kMode, "selective", kModes);
    SetOrAssume("recompute.granularity", mode, kMode);
    if (mode != "selective") return;
    const std::string option = keys_.Word(kOption, "2");
    if (option == "op") return SetOrAssume("recompute.policy", "op", kOption);
    SetOrAssume("recompute.policy", "layer", kOption);
    SetOrAssume("recompute.num_layers", fmt::format("{}", keys_.Count(kOption, 2)), kOption);
  }

  // Where the file has the key it is said there, else it is torchtitan's default.
  void SetOrAssume(std::string_view field, std::string_view word, std::string_view key) {
    if (keys_.Find(key) != nullptr) return keys_.Set(field, word, key);
    keys_.Assume(field, word);
  }

  // ---- Model parallelism ----

  std::int64_t ModelRanks() const { return tensor_ * context_ * pipeline_; }

  std::int64_t Degree(std::initializer_list<std::string_view> keys) const {
    constexpr std::int64_t kMost = 100'000;  // their product stays below 2^63
    const std::string_view key = keys_.FirstOf(keys);
    const std::int64_t degree = key.empty() ? 1 : keys_.Count(key, 1);
    if (degree >= 1 && degree <= kMost) return degree;
    keys_.Report(key, fmt::format("found {}, allowed: a whole number from 1 to {}", degree, kMost));
    return 1;
  }

  void ReadDegrees() {
    tensor_ = Degree({"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"});
    context_ =
        Degree({"parallelism.context_parallel_degree", "experimental.context_parallel_degree"});
    pipeline_ =
        Degree({"parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree"});
    if (context_ > 1) keys_.Assume("plan.context.comm_type", "all_gather");
    if (!gpus_ || ModelRanks() == 1) return;
    if (*gpus_ % ModelRanks() != 0) {
      gpus_.reset();  // the job's own rule reports it
      return;
    }
    *gpus_ /= tensor_ * context_ * pipeline_;
  }

  void ReadTensor() {
    const std::string_view key = keys_.FirstOf(
        {"parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"});
    if (key.empty()) return;
    if (!keys_.Flag(key, false) || tensor_ == 1) {
      return keys_.AddUnused(key, tensor_ == 1 ? "only with tensor parallelism" : "off");
    }
    if (!compiles_model_) {
      return keys_.Report(key,
                          "found 'true' without compilation of the model, allowed: false, or "
                          "compile.enable = true, as torchtitan asks for it");
    }
    keys_.Set("plan.tensor.overlap", "async_tp", key);
  }

  // Experts are whole unless the file says otherwise.
  void ReadExperts() {
    constexpr std::string_view kTensor = "parallelism.expert_tensor_parallel_degree";
    if (Degree({"parallelism.expert_parallel_degree"}) == 1) {
      if (keys_.Find(kTensor) != nullptr) keys_.AddUnused(kTensor, "only with expert parallelism");
      return;
    }
    if (keys_.Find(kTensor) == nullptr) return keys_.Assume("plan.expert.tensor_parallel", "1");
    keys_.Set("plan.expert.tensor_parallel", Degree({kTensor}), kTensor);
  }

  // A pipeline cuts a rank's batch into micro-batches, by default of one sample each.
  void ReadBatch() {
    const std::string_view key =
        keys_.FirstOf({"training.local_batch_size", "training.batch_size"});
    const std::int64_t local = key.empty() ? 8 : keys_.Count(key, 8);
    constexpr std::string_view kSize = "parallelism.pipeline_parallel_microbatch_size";
    constexpr std::string_view kCount = "experimental.pipeline_parallel_microbatches";
    const std::string_view schedule = ScheduleKey();
    constexpr std::string_view kFile = "parallelism.pipeline_parallel_schedule_csv";
    if (pipeline_ == 1) {
      for (const std::string_view name : {kSize, kCount, schedule, kFile}) {
        if (!name.empty() && keys_.Find(name) != nullptr) {
          keys_.AddUnused(name, "only with pipeline parallelism");
        }
      }
      if (!key.empty()) keys_.Set("batch.micro_batch_size", keys_.Word(key, ""), key);
      return;
    }
    const bool has_count = keys_.Find(kCount) != nullptr;
    const std::int64_t part = has_count ? keys_.Count(kCount, 1) : keys_.Count(kSize, 1);
    const std::string_view place = has_count ? kCount : keys_.Find(kSize) != nullptr ? kSize : key;
    if (part < 1 || local % part != 0) {
      return keys_.Report(place, fmt::format("found {}, allowed: a divisor of the {} samples of "
                                             "local_batch_size",
                                             part, local));
    }
    keys_.Set("batch.micro_batch_size", has_count ? local / part : part, place);
    keys_.Set("batch.gradient_accumulation_steps", has_count ? part : local / part, place);
    const bool has_file = !keys_.Word(kFile, "").empty();
    const std::string_view order = has_file ? kFile : schedule;
    keys_.Set("plan.pipeline.schedule", order.empty() ? "1f1b" : keys_.Word(order, "1f1b"), order);
  }

  // ---- Stages ----

  std::string_view ScheduleKey() const {
    return keys_.FirstOf(
        {"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
  }
  std::string Schedule() const {
    const ConfigNode* schedule = ScheduleKey().empty() ? nullptr : keys_.Find(ScheduleKey());
    return schedule == nullptr ? "1f1b" : LowerText(*schedule);
  }

  // By names of modules, by points between layers, by numbers; the first that the file has.
  void ReadSplit() {
    const std::string_view points = keys_.FirstOf({"parallelism.pipeline_parallel_split_points",
                                                   "experimental.pipeline_parallel_split_points"});
    const bool has_names = !ListOf(kNames).empty();
    const bool has_points = !points.empty() && !ListOf(points).empty();
    if (pipeline_ == 1) {
      for (const std::string_view key : {points, kNames, kEach, kFirstLess, kLastLess}) {
        if (!key.empty() && keys_.Find(key) != nullptr) {
          keys_.AddUnused(key, "only with pipeline parallelism");
        }
      }
    } else if (has_names) {
      std::vector<std::vector<std::string>> parts;
      for (const ConfigNode& part : keys_.Find(kNames)->items) parts.push_back(WordsOf(part));
      SetStages(ReadModuleNames(parts), kNames);
    } else if (has_points) {
      if (KnowsLayers(points)) SetStages(ReadSplitPoints(ListOf(points), layers_), points);
    } else {
      DealLayers();
    }
  }

  // Embedding and head weigh as many layers as the file says, one each by default.
  void DealLayers() {
    constexpr std::int64_t kMost = 1'000'000;
    const bool has_each = keys_.Find(kEach) != nullptr;
    const std::int64_t each = keys_.Count(kEach, 1);
    TorchtitanSplit split{.layers = layers_,
                          .first_less = keys_.Count(kFirstLess, 1),
                          .last_less = keys_.Count(kLastLess, 1)};
    const bool is_default = split.first_less == 1 && split.last_less == 1;
    const std::string_view key = has_each ? kEach : split.first_less != 1 ? kFirstLess : kLastLess;
    if (!has_each && is_default) return keys_.Set("plan.pipeline.balance", "ends");
    if (std::min({split.first_less, split.last_less, each - 1}) < 0 ||
        std::max({split.first_less, split.last_less, each}) > kMost) {
      return keys_.Report(key, fmt::format("found {}, allowed: a whole number up to {}",
                                           DescribeFound(*keys_.Find(key)), kMost));
    }
    if (!KnowsLayers(key)) return;
    const std::int64_t weight = split.layers + split.first_less + split.last_less;
    split.stages =
        has_each ? (weight + each - 1) / each : pipeline_ * (HasOneStagePerRank() ? 1 : 2);
    SetStages(DealTorchtitan(split), key);
  }

  bool HasOneStagePerRank() const {
    const std::string schedule = Schedule();
    return schedule == "1f1b" || schedule == "gpipe" || schedule == "pipelineschedulesingle";
  }

  bool KnowsLayers(std::string_view key) const {
    if (layers_ > 0) return true;
    keys_.Report(key,
                 "found a split of a model that is not among the shipped ones, whose layers are "
                 "not known, allowed: without it; --set plan.pipeline.layers_per_stage=[...] says "
                 "the layers of each stage");
    return false;
  }

  // As many stages for each rank, one or several as the schedule wants.
  void SetStages(const StageLayers& stages, std::string_view key) {
    if (!stages.problem.empty()) return keys_.Report(key, stages.problem);
    const auto count = static_cast<std::int64_t>(stages.layers.size());
    const bool is_single = HasOneStagePerRank();
    if (count % pipeline_ != 0 || (count == pipeline_) != is_single) {
      return keys_.Report(
          key, fmt::format("found {} stages, allowed with the schedule {}: {}", count,
                           keys_.Word(ScheduleKey(), "1F1B"),
                           is_single ? fmt::format("{}, one for each rank", pipeline_)
                                     : fmt::format("a multiple of {} ranks, at least two "
                                                   "for each",
                                                   pipeline_)));
    }
    if (!is_single) keys_.Set("plan.pipeline.virtual_stages", count / pipeline_, key);
    keys_.Set("plan.pipeline.layers_per_stage", stages.layers, key);
  }

  static std::vector<std::string> WordsOf(const ConfigNode& node) {
    std::vector<std::string> words;
    for (const ConfigNode& item : node.items) words.push_back(item.text);
    return words;
  }
  // Of a list, or of a text with commas.
  std::vector<std::string> ListOf(std::string_view key) const {
    const ConfigNode* node = keys_.Find(key);
    if (node == nullptr || !node->IsScalar()) {
      return node == nullptr ? std::vector<std::string>{} : WordsOf(*node);
    }
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin < node->text.size();) {
      const std::size_t end = std::min(node->text.find(',', begin), node->text.size());
      words.push_back(node->text.substr(begin, end - begin));
      begin = end + 1;
    }
    return words;
  }

  // DualPipeV's pairs run at once where experts are spread.
  void ReadOverlap() {
    constexpr std::string_view kOverlap = "parallelism.pipeline_parallel_expert_parallel_overlap";
    const bool has_pairs = pipeline_ > 1 && Schedule() == "dualpipev" &&
                           keys_.Count("parallelism.expert_parallel_degree", 1) > 1;
    if (has_pairs && keys_.Flag(kOverlap, true)) {
      return keys_.Set("plan.pipeline.overlap_forward_backward", "true",
                       keys_.Find(kOverlap) != nullptr ? kOverlap : ScheduleKey());
    }
    if (keys_.Find(kOverlap) == nullptr) return;
    keys_.AddUnused(kOverlap,
                    has_pairs ? "off" : "only with DualPipeV and experts on several ranks");
  }

  // ---- Data parallelism ----

  void ReadParallelism() {
    const std::string_view replicate_key = keys_.FirstOf(
        {"parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"});
    const std::string_view shard_key =
        keys_.FirstOf({"parallelism.data_parallel_shard_degree",
                       "training.data_parallel_shard_degree", "training.data_parallel_degree"});
    const std::int64_t replicate = replicate_key.empty() ? 1 : keys_.Count(replicate_key, 1);
    const std::int64_t shard = shard_key.empty() ? -1 : keys_.Count(shard_key, -1);
    if (replicate < 1 || replicate > kMostRanks) {
      return keys_.Report(
          replicate_key,
          fmt::format("found {}, allowed: a whole number from 1 to {}", replicate, kMostRanks));
    }
    if ((shard < 1 && shard != -1) || shard > kMostRanks) {
      return keys_.Report(
          shard_key, fmt::format("found {}, allowed: a whole number from 1 to {}, or -1 for all "
                                 "ranks that are left",
                                 shard, kMostRanks));
    }
    const std::string_view place = !shard_key.empty() ? shard_key : replicate_key;
    if (!IsPossible(replicate, shard, replicate_key.empty() ? place : replicate_key)) return;
    const std::int64_t shards = shard == -1 ? gpus_.value_or(2 * replicate) / replicate : shard;
    // Context parallel ranks hold the same parameters: FSDP2 shards over them as well.
    if (shards * context_ > 1) {
      SetFsdp(shard_key, replicate_key, replicate, shards);
    } else if (replicate > 1) {
      SetDdp(replicate_key);
    } else {
      keys_.Set("plan.strategy", "none", place);
    }
  }

  // torchtitan's rule: the degrees fill the cluster.
  bool IsPossible(std::int64_t replicate, std::int64_t shard, std::string_view key) const {
    if (!gpus_) return true;
    if (shard == -1 ? *gpus_ % replicate == 0 : replicate * shard == *gpus_) return true;
    keys_.Report(
        key,
        shard == -1
            ? fmt::format("data_parallel_replicate_degree ({}) must divide the {} GPUs", replicate,
                          *gpus_)
            : fmt::format("data_parallel_replicate_degree ({}) x data_parallel_shard_degree "
                          "({}) must equal the {} GPUs; -1 shards over all ranks that are left",
                          replicate, shard, *gpus_));
    return false;
  }

  // FSDP2; with replicas HSDP. Gradients of every micro-step are reduced.
  void SetFsdp(std::string_view shard_key, std::string_view replicate_key, std::int64_t replicate,
               std::int64_t shards) {
    keys_.Set("plan.strategy", "fsdp2", shard_key);
    if (replicate > 1) keys_.Set("plan.fsdp2.shard_size", shards * context_, replicate_key);
    const std::string reduce = keys_.Word("training.mixed_precision_reduce", "fp32", kDtypes);
    keys_.Set("plan.fsdp2.reduce_dtype", reduce, "training.mixed_precision_reduce");
    constexpr std::array kPolicies = {WordPair{"default", "auto"}, WordPair{"always", "true"},
                                      WordPair{"never", "false"}};
    const std::string_view key = keys_.FirstOf(
        {"parallelism.fsdp_reshard_after_forward", "training.fsdp_reshard_after_forward"});
    const std::string policy = key.empty() ? "auto" : keys_.Word(key, "auto", kPolicies);
    if (!key.empty()) keys_.Set("plan.fsdp2.reshard_after_forward", policy, key);
    if (is_shipped_) SetGroups(policy);
  }

  // The embedding, every block, and the last norm with the head, which backward needs first: they
  // stay gathered unless the policy is `always`. Its models do not tie the head to the embedding.
  void SetGroups(const std::string& policy) {
    keys_.Set("plan.fsdp2.wrap", "custom");
    keys_.Set("plan.fsdp2.wrap_modules", List({"embedding", "layers.*", "final_norm+head"}));
    if (policy == "auto") {
      keys_.Set("plan.fsdp2.keep_after_forward", List({"final_norm", "head"}));
    }
  }

  ConfigNode List(std::initializer_list<std::string_view> words) const {
    ConfigNode list;
    list.kind = ConfigNode::Kind::kSequence;
    list.place = keys_.PlaceOf("");
    for (const std::string_view word : words) {
      list.items.push_back(MakeText(std::string(word), list.place));
    }
    return list;
  }

  // `replicate` with buckets of 100 MB; every micro-step reduces.
  void SetDdp(std::string_view key) {
    if (ModelRanks() > 1) {
      return keys_.Report(key,
                          "found replicas without shards beside another parallelism, allowed: "
                          "data_parallel_shard_degree above 1; torchtitan's DDP goes with "
                          "no other");
    }
    keys_.Set("plan.strategy", "ddp", key);
    keys_.Set("plan.ddp.bucket_cap_mb", "100", key);
    if (keys_.Find("training.mixed_precision_reduce") != nullptr) {
      keys_.AddUnused("training.mixed_precision_reduce", "only with FSDP");
    }
    const std::string_view micro_key =
        keys_.FirstOf({"training.local_batch_size", "training.batch_size"});
    const std::int64_t micro = micro_key.empty() ? 8 : keys_.Count(micro_key, 8);
    const std::int64_t global = keys_.Count("training.global_batch_size", -1);
    if (gpus_ && global / *gpus_ > micro) keys_.Set("plan.ddp.no_sync", "false", key);
  }

  void ReadGlobalBatch() {
    const std::int64_t global = keys_.Count("training.global_batch_size", -1);
    if (global > 0) keys_.Set("batch.global_batch_size", global, "training.global_batch_size");
  }

  static constexpr std::string_view kNames = "parallelism.module_fqns_per_model_part";
  static constexpr std::string_view kEach = "parallelism.pipeline_parallel_layers_per_stage";
  static constexpr std::string_view kFirstLess =
      "parallelism.pipeline_parallel_first_stage_less_layers";
  static constexpr std::string_view kLastLess =
      "parallelism.pipeline_parallel_last_stage_less_layers";

  KeyReader keys_;
  bool is_shipped_ = false;  // the model
  std::int64_t layers_ = 0;  // of it; 0: unknown
  bool compiles_model_ = false;
  std::int64_t tensor_ = 1, context_ = 1, pipeline_ = 1;  // degrees
  std::optional<std::int64_t> gpus_;                      // that the model's own degrees leave
  ImportedJob& job_;
};

}  // namespace

ImportedJob ImportTorchtitan(const SourceFile& file, const ImportSurroundings& surroundings,
                             Diagnostics& problems) {
  ImportedJob job;
  job.framework = "torchtitan";
  job.file = file.name;
  job.needs = {{"hardware", "h100-sxm-dgx"}, {"nodes", "2"}};
  const ConfigNode root = ReadToml(file.text, file.name);
  TorchtitanReader(root, surroundings, job, problems).Read();
  return job;
}

}  // namespace stepsim
