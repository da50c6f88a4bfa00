// Hugging Face Accelerate: what `accelerate config` writes. It says on how many GPUs and with which
// library a model is trained; the script says the rest.
//
//   distributed_type: FSDP
//   num_machines: 2
//   num_processes: 16                     # on all machines
//   fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "models/import/accelerate_keys.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

// A table of a library that is not used: its keys ask for nothing.
struct Library {
  std::string_view type, table;
};
constexpr Library kLibraries[] = {{"FSDP", "fsdp_config"},
                                  {"DEEPSPEED", "deepspeed_config"},
                                  {"MEGATRON_LM", "megatron_lm_config"}};

class AccelerateReader {
 public:
  AccelerateReader(const ConfigNode& root, const ImportSurroundings& surroundings, ImportedJob& job,
                   Diagnostics& problems)
      : keys_(root, AccelerateRows(), job, problems),
        surroundings_(surroundings),
        job_(job),
        problems_(problems) {}

  void Read() {
    keys_.ReadRows();
    ReadCluster();
    ReadPrecision();
    ReadDynamo();
    constexpr std::array kTypes = {WordPair{"NO", "none"}, WordPair{"MULTI_GPU", "ddp"},
                                   WordPair{"FSDP", "fsdp"}, WordPair{"DEEPSPEED", "deepspeed"},
                                   WordPair{"MEGATRON_LM", "megatron"}};
    const std::string type = keys_.Word("distributed_type", "", kTypes);
    ReadMesh(type);
    if (type == "none" || type == "ddp") SetReplicas(type);
    if (type == "fsdp") ReadFsdp();
    if (type == "deepspeed") ReadDeepspeed();
    if (type == "megatron") ReadMegatron();
    if (keys_.Find("distributed_type") == nullptr) {
      keys_.Report("distributed_type",
                   "missing, allowed: NO, MULTI_GPU, FSDP, DEEPSPEED, "
                   "MEGATRON_LM");
    }
  }

 private:
  // Processes are counted over all machines: one for each GPU.
  void ReadCluster() {
    const std::int64_t machines = keys_.Count("num_machines", 1);
    keys_.Set("nodes", machines, "num_machines");
    if (keys_.Find("num_processes") == nullptr) return;
    const std::int64_t processes = keys_.Count("num_processes", 1);
    if (machines >= 1 && processes >= 1 && processes % machines == 0) {
      return keys_.Set("gpus_per_node", processes / machines, "num_processes");
    }
    keys_.Report(
        "num_processes",
        fmt::format("num_processes ({}) must be a multiple of num_machines ({}): it counts "
                    "the GPUs of all machines",
                    processes, machines));
  }

  void ReadPrecision() {
    constexpr std::array kPrecisions = {WordPair{"no", "fp32"}, WordPair{"bf16", "bf16"},
                                        WordPair{"fp16", "fp16"}};
    const std::string compute = keys_.Word("mixed_precision", "fp32", kPrecisions);
    keys_.Set("precision.compute", compute, "mixed_precision");
    if (compute == "fp32") {
      job_.remarks.emplace_back(
          "without mixed_precision the model's own type counts: fp32 is taken; --set "
          "precision.compute says another");
    }
  }

  void ReadDynamo() {
    const std::string_view key =
        keys_.FirstOf({"dynamo_backend", "dynamo_config.dynamo_backend", "dynamo_config.backend"});
    constexpr std::array kBackends = {WordPair{"NO", "eager"}, WordPair{"INDUCTOR", "compiled"}};
    if (!key.empty()) keys_.Set("kernels", keys_.Word(key, "eager", kBackends), key);
  }

  // ---- The mesh ----

  struct Mesh {
    std::int64_t replicate = 1, shard = 1, tensor = 1, context = 1;
  };

  std::string MeshKey(std::string_view name) const {
    return fmt::format("{}.{}_{}", kMesh, kMesh, name);
  }

  std::int64_t Size(std::string_view name) {
    constexpr std::int64_t kMost = 10'000;  // the product of four stays below 2^63
    const std::string key = MeshKey(name);
    const std::int64_t size = keys_.Count(key, 1);
    if (size >= 1 && size <= kMost) return size;
    keys_.Report(key, fmt::format("found {}, allowed: a whole number from 1 to {}", size, kMost));
    return 1;
  }

  // Without the table the library shards over all.
  void ReadMesh(std::string_view type) {
    constexpr std::string_view kUse = "use_parallelism_config";
    if (keys_.Find(kMesh) == nullptr) {
      if (keys_.Find(kUse) != nullptr) keys_.AddUnused(kUse, "only with parallelism_config");
      return;
    }
    if (!keys_.Flag(kUse, true)) return keys_.AddUnused(kMesh, "off");
    mesh_ = {Size("dp_replicate_size"), Size("dp_shard_size"), Size("tp_size"), Size("cp_size")};
    has_mesh_ = true;
    if (type != "fsdp" && type != "ddp") {
      return keys_.Report("distributed_type",
                          fmt::format("found {} beside {}, allowed: FSDP with fsdp_version 2, or "
                                      "MULTI_GPU",
                                      keys_.Word("distributed_type", "none"), kMesh));
    }
    CheckMesh(type);
    SetTensor();
    SetContext();
  }

  // Accelerate's own rules.
  void CheckMesh(std::string_view type) {
    const std::int64_t ranks = mesh_.replicate * mesh_.shard * mesh_.tensor * mesh_.context;
    const std::int64_t processes = keys_.Count("num_processes", -1);
    if (processes > 0 && ranks != processes) {
      keys_.Report(
          "num_processes",
          fmt::format("found {}, allowed: dp_replicate_size x dp_shard_size x tp_size x "
                      "cp_size of {} ({} x {} x {} x {})",
                      processes, kMesh, mesh_.replicate, mesh_.shard, mesh_.tensor, mesh_.context));
    }
    if (mesh_.replicate > 1 && mesh_.shard == 1 && mesh_.tensor * mesh_.context > 1) {
      keys_.Report(MeshKey("dp_replicate_size"),
                   "found replicas without shards beside tp_size or cp_size, allowed: "
                   "dp_shard_size above 1, or 1 replica");
    }
    if (type == "fsdp" ? keys_.Count(Fsdp("version"), 1) == 2 : mesh_.shard * mesh_.context == 1) {
      return;
    }
    keys_.Report(kMesh,
                 "found with another library than FSDP2, allowed: distributed_type FSDP "
                 "with fsdp_version 2");
  }

  // Hugging Face's plans cut by column and row and leave sequences whole; the head is gathered.
  void SetTensor() {
    if (mesh_.tensor == 1) return;
    const std::string key = MeshKey("tp_size");
    keys_.Set("plan.tensor_parallel", mesh_.tensor, key);
    keys_.Set("plan.tensor.sequence_parallel", "false", key);
    keys_.Set("plan.tensor.vocabulary_parallel_loss", "false", key);
  }

  void SetContext() {
    const std::string strategy = MeshKey("cp_comm_strategy");
    if (mesh_.context == 1) {
      if (keys_.Find(strategy) != nullptr) keys_.AddUnused(strategy, "only with cp_size above 1");
      return;
    }
    constexpr std::array kStrategies = {WordPair{"allgather", "all_gather"},
                                        WordPair{"alltoall", "p2p"}};
    keys_.Set("plan.context_parallel", mesh_.context, MeshKey("cp_size"));
    keys_.Set("plan.context.comm_type", keys_.Word(strategy, "all_gather", kStrategies), strategy);
  }

  void SetReplicas(const std::string& type) {
    const bool is_alone = has_mesh_ && mesh_.replicate == 1;
    keys_.Set("plan.strategy", is_alone ? "none" : type, "distributed_type");
  }

  // ---- FSDP ----

  std::string Fsdp(std::string_view key) const { return fmt::format("fsdp_config.fsdp_{}", key); }

  void ReadFsdp() {
    const std::int64_t version = keys_.Count(Fsdp("version"), 1);
    if (version != 1 && version != 2) {
      return keys_.Report(Fsdp("version"), fmt::format("found {}, allowed: 1, 2", version));
    }
    const std::string strategy = version == 1 ? "fsdp1" : "fsdp2";
    keys_.Set("plan.strategy", strategy, "distributed_type");
    if (version == 1) {
      ReadFsdp1();
    } else {
      ReadFsdp2();
    }
    ReadWrapping("plan." + strategy);
    // Accelerate's checkpoint wrapper is the one without use_reentrant: it stops early.
    const std::string key = Fsdp("activation_checkpointing");
    if (keys_.Flag(key, false)) {
      keys_.Set("recompute.granularity", "full", key);
      keys_.Set("recompute.early_stop", "true", key);
    } else if (keys_.Find(key) != nullptr) {
      keys_.AddUnused(key, "off");
    }
  }

  void ReadFsdp1() {
    constexpr std::array kStrategies = {WordPair{"FULL_SHARD", "FULL_SHARD"},
                                        WordPair{"SHARD_GRAD_OP", "SHARD_GRAD_OP"},
                                        WordPair{"NO_SHARD", "NO_SHARD"},
                                        WordPair{"HYBRID_SHARD", "HYBRID_SHARD"},
                                        WordPair{"HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2"},
                                        WordPair{"1", "FULL_SHARD"},
                                        WordPair{"2", "SHARD_GRAD_OP"},
                                        WordPair{"3", "NO_SHARD"},
                                        WordPair{"4", "HYBRID_SHARD"},
                                        WordPair{"5", "_HYBRID_SHARD_ZERO2"}};
    constexpr std::array kPrefetch = {WordPair{"BACKWARD_PRE", "BACKWARD_PRE"},
                                      WordPair{"BACKWARD_POST", "BACKWARD_POST"},
                                      WordPair{"NO_PREFETCH", "none"}};
    // Newer versions write the strategy under the name of FSDP2's switch.
    const std::string reshard = Fsdp("reshard_after_forward");
    const std::string strategy = Fsdp("sharding_strategy");
    const std::string& key = keys_.Find(strategy) == nullptr ? reshard : strategy;
    keys_.Set("plan.fsdp1.sharding_strategy", keys_.Word(key, "FULL_SHARD", kStrategies), key);
    const std::string old_name = Fsdp("backward_prefetch_policy");
    const std::string prefetch = Fsdp("backward_prefetch");
    const std::string& prefetch_key = keys_.Find(old_name) == nullptr ? prefetch : old_name;
    keys_.Set("plan.fsdp1.backward_prefetch", keys_.Word(prefetch_key, "none", kPrefetch),
              prefetch_key);
    SetFlag("plan.fsdp1.forward_prefetch", Fsdp("forward_prefetch"));
    SetFlag("plan.fsdp1.limit_all_gathers", Fsdp("limit_all_gathers"));
  }

  void SetFlag(std::string_view field, const std::string& key) {
    if (keys_.Find(key) != nullptr)
      keys_.Set(field, keys_.Flag(key, false) ? "true" : "false", key);
  }

  // FSDP2 has no strategies: the switch is that of every wrapped module, the root included.
  void ReadFsdp2() {
    constexpr std::array kReshard = {
        WordPair{"true", "true"},       WordPair{"false", "false"},
        WordPair{"FULL_SHARD", "true"}, WordPair{"SHARD_GRAD_OP", "false"},
        WordPair{"1", "true"},          WordPair{"2", "false"}};
    const std::string reshard = Fsdp("reshard_after_forward");
    const std::string strategy = Fsdp("sharding_strategy");
    const std::string& key = keys_.Find(reshard) == nullptr ? strategy : reshard;
    if (mesh_.replicate > 1) {
      keys_.Set("plan.fsdp2.shard_size", mesh_.shard * mesh_.context, MeshKey("dp_replicate_size"));
    }
    keys_.Set("plan.fsdp2.reshard_after_forward", keys_.Word(key, "true", kReshard), key);
    for (const char* old : {"backward_prefetch", "backward_prefetch_policy", "forward_prefetch",
                            "limit_all_gathers"}) {
      if (keys_.Find(Fsdp(old)) != nullptr) keys_.AddUnused(Fsdp(old), "only with FSDP1");
    }
  }

  void ReadWrapping(const std::string& plan) {
    constexpr std::array kPolicies = {WordPair{"TRANSFORMER_BASED_WRAP", "layer"},
                                      WordPair{"SIZE_BASED_WRAP", "min_parameters"},
                                      WordPair{"NO_WRAP", "none"}};
    const std::string key = Fsdp("auto_wrap_policy");
    const std::string size = Fsdp("min_num_params");
    const std::string policy = keys_.Word(key, "none", kPolicies);
    keys_.Set(plan + ".wrap", policy == "layer" ? "layer" : "min_parameters", key);
    if (policy == "min_parameters") {
      keys_.Set(plan + ".wrap_min_parameters", keys_.Count(size, 100'000'000), size);
      return;
    }
    if (keys_.Find(size) != nullptr) keys_.AddUnused(size, "only with SIZE_BASED_WRAP");
    if (policy != "none") return;
    // The whole model is one unit.
    keys_.Set(plan + ".wrap_min_parameters", "1000000000000000", key);
    job_.remarks.push_back(
        fmt::format("{}: the whole model is gathered as one, with nothing to overlap",
                    keys_.Find(key) == nullptr ? "no auto_wrap_policy" : "NO_WRAP"));
  }

  // ---- DeepSpeed ----

  void ReadDeepspeed() {
    constexpr std::string_view kFile = "deepspeed_config.deepspeed_config_file";
    if (keys_.Find(kFile) != nullptr) return ReadDeepspeedFile(kFile);
    constexpr std::string_view kStage = "deepspeed_config.zero_stage";
    const std::int64_t stage = keys_.Count(kStage, 2);
    if (stage < 1 || stage > 3) {
      return keys_.Report(kStage, fmt::format("found {}, allowed: 1, 2, 3; DeepSpeed without ZeRO "
                                              "is not simulated",
                                              stage));
    }
    keys_.Set("plan.strategy", "zero", "distributed_type");
    keys_.Set("plan.zero.stage", stage, kStage);
    ReadSteps("deepspeed_config.gradient_accumulation_steps");
    ReadClipping("deepspeed_config.gradient_clipping");
  }

  // A path counts from this file, or as it is given. What "auto" there asks for, this file may say.
  void ReadDeepspeedFile(std::string_view key) {
    const std::string path = keys_.Word(key, "");
    if (surroundings_.source == nullptr || path.empty()) return;
    const std::size_t slash = job_.file.find_last_of('/');
    SourceFile file;
    file.error = "found no file name";
    if (path[0] != '/' && slash != std::string::npos) {
      file = surroundings_.source->ReadFile(job_.file.substr(0, slash + 1) + path);
    }
    if (!file.error.empty()) file = surroundings_.source->ReadFile(path);
    if (!file.error.empty()) {
      return keys_.Report(key, fmt::format("{}: {}", file.name, file.error));
    }
    ImportedJob inner = ImportDeepspeed(file, surroundings_, problems_);
    const auto move_to = [](auto& from, auto& to) {
      to.insert(to.end(), std::make_move_iterator(from.begin()),
                std::make_move_iterator(from.end()));
    };
    move_to(inner.under, job_.under);
    move_to(inner.over, job_.over);
    job_.needs.clear();  // DeepSpeed's file needs the same, and says which sizes
    move_to(inner.needs, job_.needs);
    move_to(inner.unused, job_.unused);
    move_to(inner.unknown, job_.unknown);
    move_to(inner.remarks, job_.remarks);
  }

  // ---- Megatron-LM ----

  void ReadMegatron() {
    constexpr std::string_view kSharded =
        "megatron_lm_config.megatron_lm_use_distributed_optimizer";
    constexpr std::string_view kRecompute = "megatron_lm_config.megatron_lm_recompute_activations";
    keys_.Set("plan.strategy", "megatron", "distributed_type");
    SetFlag("plan.megatron.use_distributed_optimizer", std::string(kSharded));
    if (keys_.Flag(kRecompute, false)) {
      keys_.Set("recompute.granularity", "selective", kRecompute);
      keys_.Set("recompute.policy", "modules", kRecompute);
    } else if (keys_.Find(kRecompute) != nullptr) {
      keys_.AddUnused(kRecompute, "off");
    }
    // Off unless asked for.
    constexpr std::string_view kSequence = "megatron_lm_config.megatron_lm_sequence_parallelism";
    if (keys_.Count("megatron_lm_config.megatron_lm_tp_degree", 1) > 1) {
      keys_.Set("plan.tensor.sequence_parallel", keys_.Flag(kSequence, false) ? "true" : "false",
                kSequence);
    } else if (keys_.Find(kSequence) != nullptr) {
      keys_.AddUnused(kSequence, "only with tensor parallelism");
    }
    ReadSteps("megatron_lm_config.megatron_lm_num_micro_batches");
    constexpr std::string_view kClipping = "megatron_lm_config.megatron_lm_gradient_clipping";
    const bool is_split = keys_.Count("megatron_lm_config.megatron_lm_tp_degree", 1) > 1 ||
                          keys_.Count("megatron_lm_config.megatron_lm_pp_degree", 1) > 1;
    if (!is_split || keys_.Find(kClipping) == nullptr) return ReadClipping(kClipping);
    const std::string norm = keys_.Word(kClipping, "");
    keys_.Set("plan.clip_gradients", norm == "0" || norm == "0.0" ? "false" : "true", kClipping);
  }

  void ReadSteps(std::string_view key) {
    if (keys_.Find(key) == nullptr) return;
    if (keys_.IsAuto(key)) return keys_.Need("batch.gradient_accumulation_steps", "1", key);
    keys_.Set("batch.gradient_accumulation_steps", keys_.Count(key, 1), key);
  }

  void ReadClipping(std::string_view key) {
    if (keys_.Find(key) == nullptr) return;
    job_.remarks.push_back(fmt::format("clipping of the gradients ({}) is not simulated", key));
  }

  static constexpr std::string_view kMesh = "parallelism_config";

  KeyReader keys_;
  Mesh mesh_;
  bool has_mesh_ = false;
  const ImportSurroundings& surroundings_;
  ImportedJob& job_;
  Diagnostics& problems_;
};

// The tables of libraries that `distributed_type` does not name say nothing; they are noted whole.
ConfigNode WithoutOtherLibraries(ConfigNode root, ImportedJob& job) {
  const ConfigNode* type = root.FindValue("distributed_type");
  for (const Library& library : kLibraries) {
    const ConfigEntry* entry = root.Find(library.table);
    if (entry == nullptr || (type != nullptr && type->text == library.type)) continue;
    job.unused.push_back(
        {std::string(library.table), "of a library that is not used", "", entry->key_place});
    root.Remove(library.table);
  }
  return root;
}

}  // namespace

ImportedJob ImportAccelerate(const SourceFile& file, const ImportSurroundings& surroundings,
                             Diagnostics& problems) {
  ImportedJob job;
  job.framework = "accelerate";
  job.file = file.name;
  job.needs = {{"model", "llama-3-8b", ""},
               {"hardware", "h100-sxm-dgx", ""},
               {"batch.sequence_length", "4096", ""},
               {"batch.micro_batch_size", "1", ""}};
  ConfigNode whole = ReadConfig(file.text, file.name, problems);
  RequireKeys(whole, job.framework);
  const ConfigNode root = WithoutOtherLibraries(std::move(whole), job);
  AccelerateReader(root, surroundings, job, problems).Read();
  return job;
}

}  // namespace stepsim
