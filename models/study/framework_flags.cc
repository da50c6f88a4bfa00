#include "models/study/framework_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"
#include "models/study/flag_text.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

using Job = const JobSpec&;
using Word = std::optional<std::string>;  // nullopt: the framework cannot be told

// `key` is said by `spelling`: the value that stands there; "" where nothing has to be said. Of
// rows with one spelling the first counts.
struct FlagRow {
  std::string_view key, spelling;
  Word (*value)(Job);
};

// ---- What stands there ----

Word Number(std::int64_t value) { return fmt::format("{}", value); }
Word Above(std::int64_t value, std::int64_t neutral) {
  return value > neutral ? Number(value) : Word("");
}
Word Flag(bool value) { return value ? "true" : "false"; }
Word OnlyIf(bool holds) { return holds ? Word("") : std::nullopt; }
Word OfOptional(const std::optional<std::int64_t>& value) {
  return value ? Number(*value) : Word("");
}

bool HasPipeline(Job job) { return job.plan.pipeline_parallel > 1; }
bool HasTensor(Job job) { return job.plan.tensor_parallel > 1; }
bool IsOn(const RecomputeSpec& recompute, RecomputePolicy by) { return recompute.IsSelective(by); }

// ---- The environment, of all ----

constexpr std::array kEnvironment = {
    FlagRow{"collectives.algorithm", "NCCL_ALGO",
            [](Job j) { return Word(j.collectives.algorithm); }},
    FlagRow{"collectives.protocol", "NCCL_PROTO",
            [](Job j) { return Word(j.collectives.protocol); }},
    FlagRow{"collectives.max_ctas", "NCCL_MAX_CTAS",
            [](Job j) { return Above(j.collectives.max_ctas, 0); }},
};

// ---- Megatron-LM ----

// One chunk is 1F1B, several are its interleaving; it has no other schedule.
Word MegatronChunks(Job job) {
  if (!HasPipeline(job)) return "";
  const std::string_view name = ScheduleNameOf(job);
  if (name != "1f1b" && !IsMegatronsInterleaving(name)) return std::nullopt;
  return Above(ChunksPerRank(job), 1);
}

Word MegatronModules(Job job) {
  const RecomputeSpec& recompute = job.recompute;
  if (!IsOn(recompute, RecomputePolicy::kModules)) return "";
  std::vector<std::string_view> names;
  if (recompute.modules.core_attn) names.push_back("core_attn");
  if (recompute.modules.mlp) names.push_back("mlp");
  if (recompute.modules.layernorm) names.push_back("layernorm");
  if (recompute.modules.moe) return std::nullopt;
  return fmt::format("{}", fmt::join(names, " "));
}

Word MegatronGranularity(Job job) {
  if (!job.recompute.IsOn()) return "";
  if (job.recompute.IsFull()) return "full";
  return IsOn(job.recompute, RecomputePolicy::kModules) ? Word("selective") : std::nullopt;
}

constexpr std::array kMegatron = {
    FlagRow{"plan.strategy", "", [](Job j) { return OnlyIf(Uses(j, "megatron")); }},
    FlagRow{"precision.compute", "bf16",
            [](Job j) { return Flag(j.precision.compute == DType::kBf16); }},
    FlagRow{"precision.compute", "fp16",
            [](Job j) { return Flag(j.precision.compute == DType::kFp16); }},
    FlagRow{"plan.tensor_parallel", "tensor-model-parallel-size",
            [](Job j) { return Number(j.plan.tensor_parallel); }},
    FlagRow{"plan.tensor.sequence_parallel", "sequence-parallel",
            [](Job j) { return Flag(j.plan.sequence_parallel()); }},
    FlagRow{"plan.pipeline_parallel", "pipeline-model-parallel-size",
            [](Job j) { return Number(j.plan.pipeline_parallel); }},
    FlagRow{"plan.context_parallel", "context-parallel-size",
            [](Job j) { return Above(j.plan.context_parallel, 1); }},
    FlagRow{"plan.expert_parallel", "expert-model-parallel-size",
            [](Job j) { return Above(j.plan.expert_parallel, 1); }},
    FlagRow{"plan.pipeline.virtual_stages", "num-virtual-stages-per-pipeline-rank", MegatronChunks},
    FlagRow{"plan.pipeline.schedule", "num-virtual-stages-per-pipeline-rank", MegatronChunks},
    FlagRow{"plan.pipeline.microbatch_group_size",
            "microbatch-group-size-per-virtual-pipeline-stage",
            [](Job j) {
              return HasPipeline(j) ? Above(j.plan.pipeline.microbatch_group_size, 0) : Word("");
            }},
    FlagRow{"batch.micro_batch_size", "micro-batch-size",
            [](Job j) { return Number(j.batch.micro_batch_size); }},
    FlagRow{"batch.gradient_accumulation_steps", "global-batch-size",
            [](Job j) { return Number(j.global_samples()); }},
    FlagRow{"plan.megatron.use_distributed_optimizer", "use-distributed-optimizer",
            [](Job j) { return Flag(j.plan.megatron.use_distributed_optimizer); }},
    FlagRow{"plan.megatron.overlap_grad_reduce", "overlap-grad-reduce",
            [](Job j) { return Flag(j.plan.megatron.overlap_grad_reduce); }},
    FlagRow{"plan.megatron.overlap_param_gather", "overlap-param-gather",
            [](Job j) { return Flag(j.plan.megatron.overlap_param_gather); }},
    FlagRow{"plan.megatron.ddp_bucket_size", "ddp-bucket-size",
            [](Job j) { return OfOptional(j.plan.megatron.ddp_bucket_size); }},
    FlagRow{"plan.megatron.ddp_num_buckets", "ddp-num-buckets",
            [](Job j) { return OfOptional(j.plan.megatron.ddp_num_buckets); }},
    FlagRow{"plan.megatron.num_distributed_optimizer_instances",
            "num-distributed-optimizer-instances",
            [](Job j) { return Above(j.plan.megatron.num_distributed_optimizer_instances, 1); }},
    FlagRow{"plan.megatron.grad_reduce_in_fp32", "grad-reduce-in-bf16",
            [](Job j) { return Flag(!j.plan.megatron.grad_reduce_in_fp32.value_or(true)); }},
    FlagRow{"recompute.granularity", "recompute-granularity", MegatronGranularity},
    FlagRow{"recompute.policy", "recompute-granularity", MegatronGranularity},
    FlagRow{"recompute.method", "recompute-method",
            [](Job j) {
              if (!j.recompute.IsFull()) return Word("");
              return Word(j.recompute.method == RecomputeMethod::kBlock ? "block" : "uniform");
            }},
    FlagRow{"recompute.num_layers", "recompute-num-layers",
            [](Job j) { return j.recompute.IsFull() ? Number(j.recompute.num_layers) : Word(""); }},
    FlagRow{"recompute.modules.core_attn", "recompute-modules", MegatronModules},
    FlagRow{"recompute.modules.mlp", "recompute-modules", MegatronModules},
    FlagRow{"recompute.modules.layernorm", "recompute-modules", MegatronModules},
};

// ---- DeepSpeed ----

Word IfStage3(Job job, Word value) { return job.plan.zero.stage == 3 ? value : Word(""); }

// Pipelines alone have an interval of layers in the file; elsewhere the script asks for it.
Word DeepspeedInterval(Job job) {
  if (!HasPipeline(job)) return OnlyIf(!job.recompute.IsOn());
  if (!job.recompute.IsOn()) return "";
  const bool is_whole = job.recompute.IsFull() && job.recompute.method == RecomputeMethod::kUniform;
  return is_whole ? Number(job.recompute.num_layers) : std::nullopt;
}

constexpr std::array kDeepspeed = {
    FlagRow{"plan.strategy", "", [](Job j) { return OnlyIf(Uses(j, "zero")); }},
    FlagRow{"batch.micro_batch_size", "train_micro_batch_size_per_gpu",
            [](Job j) { return Number(j.batch.micro_batch_size); }},
    FlagRow{"batch.gradient_accumulation_steps", "gradient_accumulation_steps",
            [](Job j) { return Number(j.batch.gradient_accumulation_steps); }},
    FlagRow{"precision.compute", "bf16.enabled",
            [](Job j) { return Flag(j.precision.compute == DType::kBf16); }},
    FlagRow{"precision.compute", "fp16.enabled",
            [](Job j) { return Flag(j.precision.compute == DType::kFp16); }},
    FlagRow{"plan.zero.stage", "zero_optimization.stage",
            [](Job j) { return Number(j.plan.zero.stage); }},
    FlagRow{"plan.zero.overlap_comm", "zero_optimization.overlap_comm",
            [](Job j) {
              const std::optional<bool>& overlap = j.plan.zero.overlap_comm;
              return overlap ? Flag(*overlap) : Word("");
            }},
    FlagRow{"plan.zero.reduce_bucket_size", "zero_optimization.reduce_bucket_size",
            [](Job j) { return Number(j.plan.zero.reduce_bucket_size); }},
    FlagRow{"plan.zero.stage3_prefetch_bucket_size",
            "zero_optimization.stage3_prefetch_bucket_size",
            [](Job j) { return IfStage3(j, Number(j.plan.zero.stage3_prefetch_bucket_size)); }},
    FlagRow{"plan.zero.zero_hpz_partition_size", "zero_optimization.zero_hpz_partition_size",
            [](Job j) { return IfStage3(j, Above(j.plan.zero.zero_hpz_partition_size, 1)); }},
    FlagRow{"plan.tensor_parallel", "tensor_parallel.autotp_size",
            [](Job j) { return Above(j.plan.tensor_parallel, 1); }},
    FlagRow{"plan.tensor.sequence_parallel", "",
            [](Job j) { return OnlyIf(!j.plan.sequence_parallel()); }},
    FlagRow{"plan.tensor.vocabulary_parallel_loss", "",
            [](Job j) { return OnlyIf(!HasTensor(j) || !j.plan.tensor.vocabulary_parallel_loss); }},
    FlagRow{"plan.pipeline_parallel", "pipeline.stages",
            [](Job j) { return Above(j.plan.pipeline_parallel, 1); }},
    FlagRow{"plan.pipeline.schedule", "",
            [](Job j) { return OnlyIf(!HasPipeline(j) || ScheduleNameOf(j) == "1f1b"); }},
    FlagRow{"plan.pipeline.virtual_stages", "",
            [](Job j) { return OnlyIf(!HasPipeline(j) || ChunksPerRank(j) == 1); }},
    FlagRow{"recompute.granularity", "pipeline.activation_checkpoint_interval", DeepspeedInterval},
    FlagRow{"recompute.method", "pipeline.activation_checkpoint_interval", DeepspeedInterval},
    FlagRow{"recompute.num_layers", "pipeline.activation_checkpoint_interval", DeepspeedInterval},
};

// ---- torchtitan ----

// Its DDP has buckets of 100 MB and no other parallelism.
constexpr double kTitanBucket = 100;

// Decoders like Llama's: it has no GPT-2 or BERT.
bool IsTitans(Job job) {
  const TransformerSpec* network = TransformerOf(job);
  return network != nullptr && network->causal && network->gated_mlp &&
         network->norm == NormKind::kRmsNorm && network->positions == PositionKind::kRotary &&
         Uses(job, "fsdp2");
}

Word TitanShards(Job job) {
  if (!Uses(job, "fsdp2")) return "1";
  return Number(ShardingOf(job).shards / job.plan.context_parallel);
}
Word TitanCopies(Job job) {
  return Number(Uses(job, "fsdp2") ? ShardingOf(job).replicas : job.replicas());
}

Word TitanReshard(Job job) {
  if (!Uses(job, "fsdp2")) return "";
  const std::string& text = job.plan.fsdp2.reshard_after_forward;
  if (text == "auto") return "default";
  if (text == "true") return "always";
  return text == "false" ? Word("never") : std::nullopt;
}

Word TitanSchedule(Job job) {
  if (!HasPipeline(job)) return "";
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kNames = {Pair{"gpipe", "GPipe"},
                                 Pair{"1f1b", "1F1B"},
                                 Pair{"interleaved_1f1b", "Interleaved1F1B"},
                                 Pair{"looped_bfs", "LoopedBFS"},
                                 Pair{"zb1p", "InterleavedZeroBubble"},
                                 Pair{"zbv", "ZBVZeroBubble"},
                                 Pair{"dualpipev", "DualPipeV"}};
  const std::string_view name = ScheduleNameOf(job);
  for (const auto& [ours, theirs] : kNames) {
    if (ours == name) return std::string(theirs);
  }
  return std::nullopt;
}

// Two chunks are its default where a schedule has several; other numbers follow from layers for
// each stage, embedding and head counted.
Word TitanChunks(Job job) {
  return OnlyIf(!HasPipeline(job) ||
                ChunksPerRank(job) == FindSchedule(ScheduleNameOf(job))->default_chunks);
}

Word TitanRecompute(Job job) {
  const RecomputeSpec& recompute = job.recompute;
  if (!recompute.IsOn()) return "none";
  if (recompute.IsFull()) {
    const bool is_each = recompute.method == RecomputeMethod::kUniform && recompute.num_layers == 1;
    return is_each ? Word("full") : std::nullopt;
  }
  return IsOn(recompute, RecomputePolicy::kModules) ? std::nullopt : Word("selective");
}
Word TitanOption(Job job) {
  if (IsOn(job.recompute, RecomputePolicy::kOp)) return "op";
  if (!IsOn(job.recompute, RecomputePolicy::kLayer)) return "";
  return fmt::format("\"{}\"", job.recompute.num_layers);  // a text there
}

constexpr std::array kTorchtitan = {
    FlagRow{"plan.strategy", "parallelism.data_parallel_replicate_degree", TitanCopies},
    FlagRow{"plan.strategy", "parallelism.data_parallel_shard_degree", TitanShards},
    FlagRow{"plan.fsdp2.shard_size", "parallelism.data_parallel_shard_degree", TitanShards},
    FlagRow{"plan.fsdp2.reshard_after_forward", "parallelism.fsdp_reshard_after_forward",
            TitanReshard},
    FlagRow{"plan.fsdp2.reduce_dtype", "training.mixed_precision_reduce",
            [](Job j) {
              if (!Uses(j, "fsdp2")) return Word("");
              const DType reduce = ShardingOf(j).reduce;
              if (reduce == DType::kFp32) return Word("float32");
              return reduce == DType::kBf16 ? Word("bfloat16") : std::nullopt;
            }},
    FlagRow{"plan.fsdp2.forward_prefetch", "",
            [](Job j) { return OnlyIf(j.plan.fsdp2.forward_prefetch == 0); }},
    FlagRow{"plan.fsdp2.backward_prefetch", "",
            [](Job j) { return OnlyIf(j.plan.fsdp2.backward_prefetch == 1); }},
    FlagRow{"plan.fsdp2.requires_gradient_sync", "",
            [](Job j) { return OnlyIf(j.plan.fsdp2.requires_gradient_sync); }},
    FlagRow{"plan.ddp.bucket_cap_mb", "",
            [](Job j) { return OnlyIf(j.plan.ddp.bucket_cap_mb == kTitanBucket); }},
    FlagRow{"plan.ddp.no_sync", "", [](Job j) { return OnlyIf(!j.plan.ddp.no_sync); }},
    FlagRow{"plan.tensor_parallel", "parallelism.tensor_parallel_degree",
            [](Job j) { return Number(j.plan.tensor_parallel); }},
    FlagRow{"plan.context_parallel", "parallelism.context_parallel_degree",
            [](Job j) { return Above(j.plan.context_parallel, 1); }},
    FlagRow{"plan.expert_parallel", "parallelism.expert_parallel_degree",
            [](Job j) { return Above(j.plan.expert_parallel, 1); }},
    FlagRow{"plan.pipeline_parallel", "parallelism.pipeline_parallel_degree",
            [](Job j) { return Number(j.plan.pipeline_parallel); }},
    FlagRow{"plan.pipeline.schedule", "parallelism.pipeline_parallel_schedule", TitanSchedule},
    FlagRow{"plan.pipeline.virtual_stages", "", TitanChunks},
    FlagRow{"batch.micro_batch_size", "training.local_batch_size",
            [](Job j) {
              const std::int64_t parts = HasPipeline(j) ? j.batch.gradient_accumulation_steps : 1;
              return Number(j.batch.micro_batch_size * parts);
            }},
    FlagRow{"batch.micro_batch_size", "parallelism.pipeline_parallel_microbatch_size",
            [](Job j) { return HasPipeline(j) ? Number(j.batch.micro_batch_size) : Word(""); }},
    FlagRow{"batch.gradient_accumulation_steps", "training.global_batch_size",
            [](Job j) { return Number(j.global_samples()); }},
    FlagRow{"recompute.granularity", "activation_checkpoint.mode", TitanRecompute},
    FlagRow{"recompute.policy", "activation_checkpoint.selective_ac_option", TitanOption},
    FlagRow{"recompute.num_layers", "activation_checkpoint.selective_ac_option", TitanOption},
    FlagRow{"recompute.method", "activation_checkpoint.mode", TitanRecompute},
};

// ---- PyTorch ----

Word IfUses(Job job, std::string_view strategy, Word value) {
  return Uses(job, strategy) ? value : Word("");
}
Word Python(bool value) { return value ? "True" : "False"; }
Word Torch(DType dtype) {
  if (dtype == DType::kFp32) return "torch.float32";
  if (dtype == DType::kFp16) return "torch.float16";
  return dtype == DType::kBf16 ? Word("torch.bfloat16") : std::nullopt;
}

Word Fsdp1Strategy(Job job) {
  if (!Uses(job, "fsdp1")) return "";
  constexpr std::array<std::string_view, 5> kNames = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                      "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"};
  return fmt::format("ShardingStrategy.{}",
                     kNames[static_cast<std::size_t>(job.plan.fsdp1.sharding_strategy)]);
}

Word Fsdp1Backward(Job job) {
  if (!Uses(job, "fsdp1")) return "";
  switch (job.plan.fsdp1.backward_prefetch) {
    case BackwardPrefetch::kPre:
      return "BackwardPrefetch.BACKWARD_PRE";
    case BackwardPrefetch::kPost:
      return "BackwardPrefetch.BACKWARD_POST";
    case BackwardPrefetch::kNone:
      return "None";
  }
  return std::nullopt;
}

// "auto" is the default: all but the root.
Word Fsdp2Reshard(Job job) {
  const std::string& text = job.plan.fsdp2.reshard_after_forward;
  if (!Uses(job, "fsdp2")) return "";
  if (text == "auto") return "None";
  return text == "true" ? Word("True") : text == "false" ? Word("False") : Word(text);
}

Word Fsdp2Mesh(Job job) {
  if (!Uses(job, "fsdp2") || ShardingOf(job).replicas == 1) return "";
  const Sharding sharding = ShardingOf(job);
  return fmt::format(
      "init_device_mesh(\"cuda\", ({}, {}), mesh_dim_names=(\"replicate\", \"shard\"))",
      sharding.replicas, sharding.shards);
}

Word PytorchCheckpoint(Job job) {
  const RecomputeSpec& recompute = job.recompute;
  if (!recompute.IsOn()) return "";
  if (recompute.IsFull()) {
    const bool is_each = recompute.method == RecomputeMethod::kUniform && recompute.num_layers == 1;
    return is_each ? Word("each layer") : std::nullopt;
  }
  if (IsOn(recompute, RecomputePolicy::kOp)) {
    return "each layer, context_fn=create_selective_checkpoint_contexts: keep attention and every "
           "second matrix product";
  }
  if (!IsOn(recompute, RecomputePolicy::kLayer)) return std::nullopt;
  return fmt::format("every {}th layer", recompute.num_layers);
}

constexpr std::array kPytorch = {
    FlagRow{"plan.strategy", "",
            [](Job j) { return OnlyIf(!Uses(j, "zero") && !Uses(j, "megatron")); }},
    FlagRow{"batch.micro_batch_size", "DataLoader.batch_size",
            [](Job j) { return Number(j.batch.micro_batch_size); }},
    FlagRow{"batch.gradient_accumulation_steps", "# micro-steps before optimizer.step()",
            [](Job j) { return Number(j.batch.gradient_accumulation_steps); }},
    FlagRow{"plan.ddp.bucket_cap_mb", "DistributedDataParallel.bucket_cap_mb",
            [](Job j) {
              const auto& cap = j.plan.ddp.bucket_cap_mb;
              return IfUses(j, "ddp", cap ? Word(FormatCount(*cap)) : Word(""));
            }},
    FlagRow{"plan.ddp.gradient_as_bucket_view", "DistributedDataParallel.gradient_as_bucket_view",
            [](Job j) { return IfUses(j, "ddp", Python(j.plan.ddp.gradient_as_bucket_view)); }},
    FlagRow{"plan.ddp.no_sync", "# model.no_sync() in all micro-steps but the last",
            [](Job j) {
              const bool accumulates = j.batch.gradient_accumulation_steps > 1;
              return IfUses(j, "ddp",
                            accumulates ? Word(j.plan.ddp.no_sync ? "yes" : "no") : Word(""));
            }},
    FlagRow{"plan.fsdp1.sharding_strategy", "FullyShardedDataParallel.sharding_strategy",
            Fsdp1Strategy},
    FlagRow{"plan.fsdp1.backward_prefetch", "FullyShardedDataParallel.backward_prefetch",
            Fsdp1Backward},
    FlagRow{"plan.fsdp1.forward_prefetch", "FullyShardedDataParallel.forward_prefetch",
            [](Job j) { return IfUses(j, "fsdp1", Python(j.plan.fsdp1.forward_prefetch)); }},
    FlagRow{"plan.fsdp1.no_sync", "# model.no_sync() in all micro-steps but the last",
            [](Job j) {
              const bool accumulates = j.batch.gradient_accumulation_steps > 1;
              return IfUses(j, "fsdp1",
                            accumulates ? Word(j.plan.fsdp1.no_sync ? "yes" : "no") : Word(""));
            }},
    FlagRow{"plan.fsdp2.shard_size", "fully_shard.mesh", Fsdp2Mesh},
    FlagRow{"plan.fsdp2.reshard_after_forward", "fully_shard.reshard_after_forward", Fsdp2Reshard},
    FlagRow{"plan.fsdp2.param_dtype", "MixedPrecisionPolicy.param_dtype",
            [](Job j) { return IfUses(j, "fsdp2", Torch(ShardingOf(j).gather)); }},
    FlagRow{"plan.fsdp2.reduce_dtype", "MixedPrecisionPolicy.reduce_dtype",
            [](Job j) { return IfUses(j, "fsdp2", Torch(ShardingOf(j).reduce)); }},
    FlagRow{"plan.fsdp2.forward_prefetch",
            "# layers in each layer.set_modules_to_forward_prefetch([...])",
            [](Job j) { return IfUses(j, "fsdp2", Above(j.plan.fsdp2.forward_prefetch, 0)); }},
    FlagRow{"plan.fsdp2.backward_prefetch",
            "# layers in each layer.set_modules_to_backward_prefetch([...])",
            [](Job j) {
              const std::int64_t depth = j.plan.fsdp2.backward_prefetch;
              return IfUses(j, "fsdp2", depth == 1 ? Word("") : Number(depth));
            }},
    FlagRow{"plan.fsdp2.requires_gradient_sync",
            "# model.set_requires_gradient_sync(False) in all micro-steps but the last",
            [](Job j) {
              const bool accumulates = j.batch.gradient_accumulation_steps > 1;
              const char* text = j.plan.fsdp2.requires_gradient_sync ? "no" : "yes";
              return IfUses(j, "fsdp2", accumulates ? Word(text) : Word(""));
            }},
    FlagRow{"plan.tensor_parallel", "# parallelize_module, ranks of the \"tp\" dimension",
            [](Job j) { return Above(j.plan.tensor_parallel, 1); }},
    FlagRow{"plan.pipeline_parallel", "# torch.distributed.pipelining, ranks",
            [](Job j) { return Above(j.plan.pipeline_parallel, 1); }},
    FlagRow{"plan.pipeline.schedule", "# get_schedule_class", TitanSchedule},
    FlagRow{"plan.pipeline.virtual_stages", "# stages of a rank",
            [](Job j) { return HasPipeline(j) ? Above(ChunksPerRank(j), 1) : Word(""); }},
    FlagRow{"recompute.granularity", "# torch.utils.checkpoint", PytorchCheckpoint},
    FlagRow{"recompute.policy", "# torch.utils.checkpoint", PytorchCheckpoint},
    FlagRow{"recompute.method", "# torch.utils.checkpoint", PytorchCheckpoint},
    FlagRow{"recompute.num_layers", "# torch.utils.checkpoint", PytorchCheckpoint},
};

// ---- Which frameworks there are ----

struct Framework {
  std::string_view name, importer;
  std::span<const FlagRow> rows;
  bool (*has)(Job);
  std::string (*text)(const std::vector<SpelledFlag>&);
};

constexpr std::array kFrameworks = {
    Framework{"PyTorch", "", kPytorch,
              [](Job j) { return Uses(j, "ddp") || Uses(j, "fsdp1") || Uses(j, "fsdp2"); },
              PythonText},
    Framework{"torchtitan", "torchtitan", kTorchtitan, IsTitans, TomlText},
    Framework{"Megatron-LM", "megatron", kMegatron, [](Job j) { return Uses(j, "megatron"); },
              ArgumentText},
    Framework{"DeepSpeed", "deepspeed", kDeepspeed, [](Job j) { return Uses(j, "zero"); },
              JsonText},
    Framework{"environment", "", kEnvironment, [](Job) { return true; }, EnvironmentText},
};

// Does a table say all of a key's value?
bool Says(std::span<const FlagRow> rows, std::string_view key, Job job) {
  bool has_row = false;
  for (const FlagRow& row : rows) {
    if (row.key != key) continue;
    has_row = true;
    if (!row.value(job)) return false;
  }
  return has_row;
}

std::vector<std::string> Unable(const Framework& framework, Job job, const Changes& changes) {
  std::vector<std::string> unable;
  for (const std::string& change : changes) {
    const std::size_t equals = change.find('=');
    if (change.substr(equals) == "=null") continue;
    const std::string key = change.substr(0, equals);
    if (!Says(framework.rows, key, job) && !Says(kEnvironment, key, job)) unable.push_back(change);
  }
  return unable;
}

std::vector<SpelledFlag> SpellAll(std::span<const FlagRow> rows, Job job) {
  std::vector<SpelledFlag> flags;
  for (const FlagRow& row : rows) {
    const bool is_said = std::any_of(flags.begin(), flags.end(), [&](const SpelledFlag& flag) {
      return flag.spelling == row.spelling;
    });
    const Word value = row.value(job);
    if (row.spelling.empty() || is_said || !value || value->empty()) continue;
    flags.push_back({std::string(row.spelling), *value});
  }
  return flags;
}

}  // namespace

std::vector<FrameworkFlags> FlagsOf(const JobSpec& job, const Changes& changes) {
  std::vector<FrameworkFlags> all;
  for (const Framework& framework : kFrameworks) {
    if (!framework.has(job)) continue;
    const std::vector<SpelledFlag> flags = SpellAll(framework.rows, job);
    if (flags.empty()) continue;
    all.push_back({framework.name, framework.importer, framework.text(flags), {}});
    if (framework.rows.data() != kEnvironment.data()) {
      all.back().unable = Unable(framework, job, changes);
    }
  }
  return all;
}

std::vector<std::string_view> FlagKeys(std::string_view framework) {
  std::vector<std::string_view> keys;
  for (const Framework& each : kFrameworks) {
    if (each.name != framework) continue;
    for (const FlagRow& row : each.rows) {
      if (std::count(keys.begin(), keys.end(), row.key) == 0) keys.push_back(row.key);
    }
  }
  return keys;
}

}  // namespace stepsim
