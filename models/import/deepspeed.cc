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

#include "models/import/deepspeed_keys.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

constexpr std::string_view kZero = "zero_optimization";
constexpr std::string_view kStage = "zero_optimization.stage";

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
      : keys_(root, DeepspeedRows(), job, problems), job_(job) {}

  void Read() {
    keys_.ReadRows();
    ReadStage();
    ReadSubGroup();
    for (const FilledIn& size : kFilledIn) ReadSize(size);
    ReadBatch();
    ReadPrecision();
    ReadOptimizer();
    ReadTensor();
    ReadSequence();
    ReadPipeline();
    ReadClipping();
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

  // ---- Model parallelism ----

  // 1 where the key is missing, or neutral and noted, or wrong and reported.
  std::int64_t Degree(std::string_view key, std::string_view field) {
    constexpr std::int64_t kMost = 1'000'000;
    if (keys_.Find(key) == nullptr) return 1;
    if (keys_.IsAuto(key)) {
      keys_.Need(field, "1", key);
      return 1;
    }
    const std::int64_t degree = keys_.Count(key, 1);
    if (degree < 0 || degree > kMost) {
      keys_.Report(key,
                   fmt::format("found {}, allowed: a whole number from 0 to {}", degree, kMost));
      return 1;
    }
    if (degree <= 1) {
      keys_.AddUnused(key, "one part");
      return 1;
    }
    keys_.Set(field, degree, key);
    return degree;
  }

  // AutoTP: layers cut by column and row, whole sequences, a whole head; every sum is waited for.
  void ReadTensor() {
    constexpr std::string_view kDegree = "tensor_parallel.autotp_size";
    constexpr std::string_view kOverlap = "tensor_parallel.tp_overlap_comm";
    tensor_ = Degree(kDegree, "plan.tensor_parallel");
    if (tensor_ == 1) {
      if (keys_.Find(kOverlap) != nullptr) {
        keys_.AddUnused(kOverlap, "only with tensor parallelism");
      }
      return;
    }
    if (keys_.Count(kStage, 0) == 3) {
      keys_.Report(kDegree, fmt::format("found {} with zero_optimization.stage 3, allowed: 0, or "
                                        "stage 1 or 2, as DeepSpeed's AutoTP wants it",
                                        tensor_));
    }
    keys_.Set("plan.tensor.sequence_parallel", "false", kDegree);
    keys_.Set("plan.tensor.vocabulary_parallel_loss", "false", kDegree);
    keys_.Set("plan.tensor.async_input_gradient", keys_.Flag(kOverlap, false) ? "true" : "false",
              keys_.Find(kOverlap) != nullptr ? kOverlap : kDegree);
  }

  // Ulysses: ranks swap sequence for heads around attention.
  void ReadSequence() {
    constexpr std::string_view kDegree = "sequence_parallel_size";
    constexpr std::string_view kType = "seq_parallel_communication_data_type";
    sequence_ = Degree(kDegree, "plan.context_parallel");
    if (sequence_ > 1) {
      keys_.Set("plan.context.comm_type", "a2a", kDegree);
      keys_.Set("plan.context.load_balance", "false", kDegree);
    }
    if (keys_.Find(kType) == nullptr) return;
    keys_.AddUnused(kType, sequence_ > 1 ? "ZeRO reduces in communication_data_type"
                                         : "only with sequence parallelism");
  }

  // PipelineModule: 1F1B; it counts its list of modules, in which embedding and head are one each,
  // or their parameters, or those of some classes.
  void ReadPipeline() {
    if (keys_.Find("pipeline") == nullptr) return;
    const std::string_view stages = keys_.FirstOf({"pipeline.stages", "pipeline.num_stages"});
    const std::string_view method =
        keys_.FirstOf({"pipeline.partition", "pipeline.partition_method"});
    constexpr std::string_view kInterval = "pipeline.activation_checkpoint_interval";
    if (!stages.empty()) pipeline_ = Degree(stages, "plan.pipeline_parallel");
    if (pipeline_ == 1) {
      for (const std::string_view key : {method, kInterval, kPipeCut, kGradientsCut}) {
        if (!key.empty() && keys_.Find(key) != nullptr) {
          keys_.AddUnused(key, "only with pipeline parallelism (pipeline.stages)");
        }
      }
      return;
    }
    ReadPartition(method);
    const std::int64_t interval = keys_.Count(kInterval, 0);
    if (interval > 0) {
      keys_.Set("recompute.granularity", "full", kInterval);
      keys_.Set("recompute.method", "uniform", kInterval);
      keys_.Set("recompute.num_layers", interval, kInterval);
    } else if (keys_.Find(kInterval) != nullptr) {
      keys_.AddUnused(kInterval, "off");
    }
    for (const std::string_view key : {kPipeCut, kGradientsCut}) {
      if (keys_.Find(key) != nullptr) keys_.AddUnused(key, "tensors travel whole here");
    }
    if (tensor_ > 1 && keys_.Flag(kPipeCut, true)) {
      job_.remarks.emplace_back(
          "between stages tensors travel whole; DeepSpeed cuts them over the tensor parallel ranks "
          "and gathers them behind (pipe_partitioned)");
    }
  }

  void ReadPartition(std::string_view key) {
    constexpr std::string_view kBalance = "plan.pipeline.balance";
    if (key.empty()) return keys_.Assume(kBalance, "parameters");
    const ConfigNode* node = keys_.Find(key);
    const std::string method = LowerText(*node);
    if (method == "parameters" || method == "best") {
      return keys_.Set(kBalance, "parameters", key);
    }
    if (method == "uniform") return keys_.Set(kBalance, "ends", key);
    if (method.rfind("type:", 0) == 0) {
      const bool counts_ends = method.find("embed") != std::string::npos;
      return keys_.Set(kBalance, counts_ends ? "ends" : "layers", key);
    }
    keys_.Report(key, fmt::format("found {}, allowed: uniform, parameters, type:REGEX, where REGEX "
                                  "finds the classes that count",
                                  DescribeFound(*node)));
  }

  // Off unless asked for. One copy of the network on one GPU is simulated without it.
  void ReadClipping() {
    constexpr std::string_view kKey = "gradient_clipping";
    const ConfigNode* clipping = keys_.Find(kKey);
    const bool is_on = clipping != nullptr && clipping->text != "0" && clipping->text != "0.0";
    if (tensor_ * sequence_ * pipeline_ > 1) {
      return keys_.Set("plan.clip_gradients", is_on ? "true" : "false", kKey);
    }
    if (is_on) {
      job_.remarks.emplace_back("clipping of the gradients (gradient_clipping) is not simulated");
    }
  }

  void ReadRemarks() {
    if (keys_.Flag("wall_clock_breakdown", false)) {
      job_.remarks.emplace_back(
          "the synchronisations of wall_clock_breakdown are not simulated: real steps are longer");
    } else if (keys_.Find("wall_clock_breakdown") != nullptr) {
      keys_.AddUnused("wall_clock_breakdown", "logging");
    }
  }

  static constexpr std::string_view kPipeCut = "pipeline.pipe_partitioned";
  static constexpr std::string_view kGradientsCut = "pipeline.grad_partitioned";

  KeyReader keys_;
  ImportedJob& job_;
  std::int64_t tensor_ = 1, sequence_ = 1, pipeline_ = 1;  // degrees
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
