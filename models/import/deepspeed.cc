// DeepSpeed: a configuration in JSON. It says how to share a model and in which batches, not which
// model, on which machine or with how many tokens.
//
//   {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true},
//    "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8}}
//
// "auto" is not DeepSpeed's: Hugging Face's Trainer and Accelerate put a value there.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "models/import/key_reader.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

constexpr std::string_view kZero = "zero_optimization";
constexpr std::string_view kStage = "zero_optimization.stage";

// ZeRO's own knobs have the same names in a job.
std::vector<KeyRow> ZeroRows() {
  return {
      Reads(kStage),
      Takes("zero_optimization.overlap_comm", "plan.zero.overlap_comm"),
      Reads("zero_optimization.reduce_bucket_size"),
      Takes("zero_optimization.allgather_bucket_size", "plan.zero.allgather_bucket_size"),
      Takes("zero_optimization.allgather_partitions", "plan.zero.allgather_partitions"),
      Takes("zero_optimization.reduce_scatter", "plan.zero.reduce_scatter"),
      Takes("zero_optimization.use_multi_rank_bucket_allreduce",
            "plan.zero.use_multi_rank_bucket_allreduce"),
      Takes("zero_optimization.contiguous_gradients", "plan.zero.contiguous_gradients"),
      Takes("zero_optimization.round_robin_gradients", "plan.zero.round_robin_gradients"),
      Reads("zero_optimization.stage3_prefetch_bucket_size"),
      Takes("zero_optimization.stage3_max_live_parameters", "plan.zero.stage3_max_live_parameters"),
      Takes("zero_optimization.stage3_max_reuse_distance", "plan.zero.stage3_max_reuse_distance"),
      Reads("zero_optimization.stage3_param_persistence_threshold"),
      Takes("zero_optimization.stage3_module_granularity_threshold",
            "plan.zero.stage3_module_granularity_threshold"),
      Takes("zero_optimization.stage3_allgather_sequential",
            "plan.zero.stage3_allgather_sequential"),
      Reads("zero_optimization.sub_group_size"),
      Takes("zero_optimization.zero_hpz_partition_size", "plan.zero.zero_hpz_partition_size"),
      Refuses("zero_optimization.offload_param.device", {"none"}, "offloading"),
      Refuses("zero_optimization.offload_optimizer.device", {"none"}, "offloading"),
      NoEffect("zero_optimization.offload_param.*", "only with offloading"),
      NoEffect("zero_optimization.offload_optimizer.*", "only with offloading"),
      Refuses("zero_optimization.cpu_offload", {"false"}, "offloading"),
      Refuses("zero_optimization.cpu_offload_param", {"false"}, "offloading"),
      NoEffect("zero_optimization.cpu_offload_use_pin_memory", "only with offloading"),
      Refuses("zero_optimization.zenflow", {}, "ZenFlow"),
      Refuses("zero_optimization.zero_quantized_weights", {"false"}, "quantised gathers"),
      Refuses("zero_optimization.zero_quantized_nontrainable_weights", {"false"},
              "quantised weights"),
      Refuses("zero_optimization.zero_quantized_gradients", {"false"}, "quantised reductions"),
      Refuses("zero_optimization.zeropp_loco_param", {}, "quantised reductions"),
      Refuses("zero_optimization.mics_shard_size", {"-1"}, "MiCS"),
      Refuses("zero_optimization.mics_hierarchical_params_gather", {"false"}, "MiCS"),
      Refuses("zero_optimization.legacy_stage1", {"false"}, "the old stage 1"),
      Refuses("zero_optimization.stage3_use_all_reduce_for_fetch_params", {"false"},
              "gathers by all_reduce"),
      Refuses("zero_optimization.stage3_model_persistence_threshold", {"9223372036854775807"},
              "a bound on what persists"),
      Refuses("zero_optimization.leaf_module", {},
              "leaf modules by their class; plan.zero.stage3_leaf_modules=layers says that every "
              "layer is one"),
      NoEffect("zero_optimization.stage3_partition_stream_chunk_size", "start of the training"),
      NoEffect("zero_optimization.stage3_gather_16bit_weights_on_model_save", "checkpoints"),
      NoEffect("zero_optimization.stage3_gather_fp16_weights_on_model_save", "checkpoints"),
      NoEffect("zero_optimization.load_from_fp32_weights", "checkpoints"),
      NoEffect("zero_optimization.elastic_checkpoint", "checkpoints"),
      NoEffect("zero_optimization.pipeline_loading_checkpoint", "checkpoints"),
      NoEffect("zero_optimization.ignore_unused_parameters", "checks"),
      NoEffect("zero_optimization.enable_sanity_checks", "checks"),
      NoEffect("zero_optimization.log_trace_cache_warnings", "logging"),
      NoEffect("zero_optimization.override_module_apply", "start of the training"),
      NoEffect("zero_optimization.memory_efficient_linear", "what autograd keeps of a linear"),
  };
}

std::vector<KeyRow> StepRows() {
  return {
      Reads("train_batch_size"),
      Reads("train_micro_batch_size_per_gpu"),
      Reads("gradient_accumulation_steps"),
      Reads("bf16.enabled"),
      Reads("bfloat16.enabled"),
      Reads("fp16.enabled"),
      Refuses("fp16.auto_cast", {"false"}, "autocast inside DeepSpeed"),
      Refuses("fp16.fp16_master_weights_and_grads", {"false"}, "16-bit master weights"),
      NoEffect("fp16.*", "loss scaling"),
      NoEffect("bf16.*", "how 16-bit gradients are kept"),
      Refuses("amp.enabled", {"false"}, "Apex AMP"),
      NoEffect("amp.*", "only with amp"),
      Refuses("torch_autocast.enabled", {"false"}, "autocast inside DeepSpeed"),
      NoEffect("torch_autocast.*", "only with torch_autocast"),
      Takes("communication_data_type", "plan.zero.communication_data_type",
            {{"fp16", "fp16"}, {"bf16", "bf16"}, {"fp32", "fp32"}}),
      Reads("data_types.grad_accum_dtype"),
      Reads("optimizer.type"),
      Reads("optimizer.params"),
      Refuses("optimizer.legacy_fusion", {"false"}, "the old fused optimizer"),
      Reads("gradient_clipping"),
      Reads("wall_clock_breakdown"),
      NoEffect("prescale_gradients", "numbers of the gradients"),
      NoEffect("gradient_predivide_factor", "numbers of the gradients"),
      Refuses("sparse_gradients", {"false"}, "sparse gradients"),
      Refuses("disable_allgather", {"false"}, "a step without gathers"),
      Refuses("graph_harvesting", {"false"}, "CUDA graphs inside DeepSpeed"),
      Refuses("compile.deepcompile", {"false"}, "DeepCompile"),
      NoEffect("compile.*", "only with deepcompile"),
      Refuses("activation_checkpointing.partition_activations", {"false"},
              "partitioned activations"),
      Refuses("activation_checkpointing.cpu_checkpointing", {"false"}, "offloading"),
      NoEffect("activation_checkpointing.*", "the script says whether it recomputes"),
      Refuses("sequence_parallel_size", {"1"}, "sequence parallelism"),
      NoEffect("seq_parallel_communication_data_type", "only with sequence parallelism"),
      Refuses("tensor_parallel.autotp_size", {"0", "1"}, "tensor parallelism"),
      NoEffect("tensor_parallel.*", "only with tensor parallelism"),
      NoEffect("pipeline.*", "only with pipeline parallelism"),
  };
}

std::vector<KeyRow> OtherRows() {
  return {
      NoEffect("scheduler.*", "learning rate"),
      NoEffect("steps_per_print", "logging"),
      NoEffect("dump_state", "logging"),
      NoEffect("memory_breakdown", "logging"),
      NoEffect("tensorboard.*", "logging"),
      NoEffect("wandb.*", "logging"),
      NoEffect("csv_monitor.*", "logging"),
      NoEffect("comet.*", "logging"),
      NoEffect("monitor_config.*", "logging"),
      NoEffect("comms_logger.*", "logging"),
      NoEffect("flops_profiler.*", "profiling"),
      NoEffect("checkpoint.*", "checkpoints"),
      NoEffect("nebula.*", "checkpoints"),
      NoEffect("autotuning.*", "start of the training"),
      NoEffect("elasticity.*", "start of the training"),
      NoEffect("aio.*", "only with offloading"),
      NoEffect("dataloader_drop_last", "data"),
      NoEffect("zero_allow_untested_optimizer", "checks"),
      NoEffect("zero_force_ds_cpu_optimizer", "only with offloading"),
      Refuses("curriculum_learning.enabled", {"false"}, "curricula"),
      NoEffect("curriculum_learning.*", "only with curricula"),
      Refuses("data_efficiency.enabled", {"false"}, "data efficiency"),
      NoEffect("data_efficiency.*", "only with data efficiency"),
      Refuses("progressive_layer_drop.enabled", {"false"}, "layers that are dropped"),
      NoEffect("progressive_layer_drop.*", "only with layers that are dropped"),
      Refuses("eigenvalue.enabled", {"false"}, "eigenvalues"),
      NoEffect("eigenvalue.*", "only with eigenvalues"),
      Refuses("hybrid_engine.enabled", {"false"}, "the hybrid engine"),
      NoEffect("hybrid_engine.*", "only with the hybrid engine"),
      Refuses("compression_training", {}, "compression"),
      Refuses("quantize_training", {}, "quantised training"),
      Refuses("sparse_attention", {}, "sparse attention"),
  };
}

const std::vector<KeyRow>& Rows() {
  static const std::vector<KeyRow> rows = Joined({ZeroRows(), StepRows(), OtherRows()});
  return rows;
}

// Sizes for which Hugging Face's Trainer has a rule, h being the hidden size.
struct FilledIn {
  std::string_view name, rule;
};
constexpr std::array kFilledIn = {FilledIn{"reduce_bucket_size", "h x h"},
                                  FilledIn{"stage3_prefetch_bucket_size", "0.9 x h x h"},
                                  FilledIn{"stage3_param_persistence_threshold", "10 x h"}};

class DeepspeedReader {
 public:
  DeepspeedReader(const ConfigNode& root, ImportedJob& job, Diagnostics& problems)
      : keys_(root, Rows(), job, problems), job_(job) {}

  void Read() {
    keys_.ReadRows();
    ReadStage();
    ReadSubGroup();
    for (const FilledIn& size : kFilledIn) ReadSize(size);
    ReadBatch();
    ReadPrecision();
    ReadOptimizer();
    ReadRemarks();
  }

 private:
  void ReadStage() {
    const std::int64_t stage = keys_.Count(kStage, 0);
    if (stage < 1 || stage > 3) {
      keys_.Report(keys_.Find(kStage) != nullptr ? kStage : kZero,
                   fmt::format("found stage {}, allowed: 1, 2, 3; DeepSpeed without ZeRO is not "
                               "simulated",
                               stage));
      return;
    }
    keys_.Set("plan.strategy", "zero", kStage);
    keys_.Set("plan.zero.stage", stage, kStage);
  }

  void ReadSize(const FilledIn& size) {
    const std::string key = fmt::format("{}.{}", kZero, size.name);
    if (keys_.Find(key) == nullptr) return;
    const std::string field = fmt::format("plan.zero.{}", size.name);
    if (!keys_.IsAuto(key)) return keys_.Set(field, keys_.Count(key, 1), key);
    keys_.Need(field, "N", key);
    job_.needs.back().remark += fmt::format(", for which the Trainer takes {}", size.rule);
  }

  // Some give 0 for "no parts".
  void ReadSubGroup() {
    constexpr std::string_view kKey = "zero_optimization.sub_group_size";
    if (keys_.Find(kKey) == nullptr) return;
    if (keys_.IsAuto(kKey)) return keys_.Need("plan.zero.sub_group_size", "1000000000", kKey);
    const std::int64_t size = keys_.Count(kKey, 1);
    if (size == 0) return keys_.AddUnused(kKey, "one group for all parameters");
    keys_.Set("plan.zero.sub_group_size", size, kKey);
  }

  // Two of the three say the third; with one or none DeepSpeed accumulates nothing.
  void ReadBatch() {
    constexpr std::string_view kTrain = "train_batch_size";
    constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
    constexpr std::string_view kSteps = "gradient_accumulation_steps";
    const auto is_known = [&](std::string_view key) {
      return keys_.Find(key) != nullptr && !keys_.IsAuto(key);
    };
    if (is_known(kTrain)) {
      keys_.Set("batch.global_batch_size", keys_.Count(kTrain, 1), kTrain);
    }
    if (is_known(kMicro)) keys_.Set("batch.micro_batch_size", keys_.Count(kMicro, 1), kMicro);
    if (is_known(kSteps)) {
      keys_.Set("batch.gradient_accumulation_steps", keys_.Count(kSteps, 1), kSteps);
    }
    if (!is_known(kMicro) && !is_known(kTrain)) keys_.Need("batch.micro_batch_size", "1", kMicro);
    if (keys_.IsAuto(kSteps) && !(is_known(kTrain) && is_known(kMicro))) {
      keys_.Need("batch.gradient_accumulation_steps", "1", kSteps);
    }
    if (keys_.IsAuto(kTrain)) keys_.AddUnused(kTrain, "follows from the two others");
  }

  void ReadPrecision() {
    constexpr std::string_view kFp16 = "fp16.enabled";
    const std::string_view bf16 = keys_.FirstOf({"bf16.enabled", "bfloat16.enabled"});
    for (const std::string_view key : {bf16, kFp16}) {
      if (!key.empty() && keys_.IsAuto(key)) return keys_.Need("precision.compute", "bf16", key);
    }
    const bool is_bf16 = !bf16.empty() && keys_.Flag(bf16, false);
    const bool is_fp16 = keys_.Flag(kFp16, false);
    if (is_bf16 && is_fp16) {
      return keys_.Report(kFp16, "found 'true' beside bf16.enabled, allowed: one of the two");
    }
    const std::string compute = is_bf16 ? "bf16" : is_fp16 ? "fp16" : "fp32";
    keys_.Set("precision.compute", compute, is_bf16 ? bf16 : kFp16);
    CheckAccumulation(compute);
  }

  // Gradients are accumulated as they come: in the type of compute.
  void CheckAccumulation(const std::string& compute) {
    constexpr std::string_view kKey = "data_types.grad_accum_dtype";
    if (keys_.Find(kKey) == nullptr || keys_.IsAuto(kKey)) return;
    if (keys_.Word(kKey, compute) == compute) return keys_.AddUnused(kKey, "the default");
    keys_.Report(kKey, fmt::format("found '{}', allowed: {}; accumulating in another type than "
                                   "gradients have is not simulated",
                                   keys_.Word(kKey, ""), compute));
  }

  void ReadOptimizer() {
    constexpr std::string_view kType = "optimizer.type";
    if (keys_.Find(kType) == nullptr) {
      job_.remarks.emplace_back(
          "the script makes the optimizer: JOB or --set optimizer says which");
      return;
    }
    constexpr std::array kTypes = {WordPair{"Adam", "adamw"}, WordPair{"AdamW", "adamw"},
                                   WordPair{"FusedAdam", "adamw"}, WordPair{"SGD", "sgd"}};
    std::string optimizer = keys_.Word(kType, "adamw", kTypes);
    const ConfigNode* params = keys_.Find("optimizer.params");
    const ConfigNode* momentum = params == nullptr ? nullptr : params->FindValue("momentum");
    if (optimizer == "sgd" && momentum != nullptr && momentum->text != "0")
      optimizer += "_momentum";
    keys_.Set("optimizer", optimizer, kType);
    if (optimizer == "adamw") {
      const ConfigNode* torch = params == nullptr ? nullptr : params->FindValue("torch_adam");
      const bool is_torch = torch != nullptr && LowerText(*torch) == "true";
      keys_.Set("optimizer_impl", is_torch ? "foreach" : "fused", kType);
    }
    if (params != nullptr) keys_.AddUnused("optimizer.params", "the optimizer's numbers");
  }

  void ReadRemarks() {
    const ConfigNode* clipping = keys_.Find("gradient_clipping");
    if (clipping != nullptr && clipping->text != "0" && clipping->text != "0.0") {
      job_.remarks.emplace_back("clipping of the gradients (gradient_clipping) is not simulated");
    }
    if (keys_.Flag("wall_clock_breakdown", false)) {
      job_.remarks.emplace_back(
          "the synchronisations of wall_clock_breakdown are not simulated: real steps are longer");
    } else if (keys_.Find("wall_clock_breakdown") != nullptr) {
      keys_.AddUnused("wall_clock_breakdown", "logging");
    }
  }

  KeyReader keys_;
  ImportedJob& job_;
};

}  // namespace

ImportedJob ImportDeepspeed(const SourceFile& file, const ImportSurroundings&,
                            Diagnostics& problems) {
  ImportedJob job;
  job.framework = "deepspeed";
  job.file = file.name;
  job.needs = {{"model", "llama-3-8b", ""},
               {"hardware", "h100-sxm-dgx", ""},
               {"nodes", "2", ""},
               {"batch.sequence_length", "4096", ""}};
  const ConfigNode root = ReadConfig(file.text, file.name, problems);
  RequireKeys(root, job.framework);
  DeepspeedReader(root, job, problems).Read();
  return job;
}

}  // namespace stepsim
