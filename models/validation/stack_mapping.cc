// Whose software ran? `strategy` names the data parallelism; where several programs have the same,
// another column tells them apart. What a program does by itself stands in kStacks.
#include <fmt/format.h>

#include <array>
#include <cctype>

#include "models/validation/mapping.h"

namespace stepsim {
namespace {

struct StackRule {
  std::string_view strategy;         // words of the column, or of UnstatedStrategy()
  std::string_view column, content;  // and words of another column; "": none
  std::string_view stack;
  std::string_view why;  // where the row does not say it all: an assumption
};

// The first row that matches.
constexpr std::array kStackRules = {
    StackRule{"offload", "", "", "", "the optimizer on the CPU is not simulated"},
    StackRule{"ddp megatron deepspeed", "", "", "megatron deepspeed", ""},
    StackRule{"deepspeed zero1 megatron", "", "", "deepspeed 3d", ""},
    StackRule{"deepspeed zero0 megatron", "", "", "deepspeed 3d zero0", ""},
    StackRule{"megatron local ddp", "", "", "megatron 2021", ""},
    StackRule{"megatron fsdp", "", "", "megatron fsdp", ""},
    StackRule{"megatron", "overlap", "none", "megatron core", ""},
    StackRule{"megatron", "optimizer", "distributed fused adam", "nemo 1", ""},
    StackRule{"megatron zero1", "", "", "megatron core", ""},
    StackRule{"megatron", "", "", "nemo", ""},
    StackRule{"fsdp1", "optimizer", "decoupled adamw", "composer", ""},
    StackRule{"fsdp1", "", "", "fsdp1", ""},
    StackRule{"jax", "", "", "xla", ""},
    StackRule{"fsdp2", "optimizer", "adamw fused", "torchtitan", ""},
    StackRule{"fsdp2", "", "", "fsdp2", ""},
    StackRule{"fsdp", "", "", "fsdp1", "FSDP without a version: FSDP1"},
    StackRule{"zero", "", "", "deepspeed", ""},
    StackRule{"horovod", "", "", "horovod", ""},
    StackRule{"ddp hand written bucketed", "", "", "ddp", ""},
    StackRule{"ddp hand written", "", "", "ddp serial", ""},
    StackRule{"ddp model parallel", "", "", "megatron 2021",
              "DDP with model parallelism: Megatron"},
    StackRule{"ddp", "", "", "ddp", ""},
    StackRule{"=unstated single", "", "", "ddp", "one GPU: no data parallelism"},
    StackRule{"unstated", "flash_attention", "=n", "megatron 2021",
              "degrees of Megatron and attention that is not fused: Megatron-LM before 2023"},
    StackRule{"unstated degrees", "", "", "nemo",
              "degrees of Megatron: its distributed optimizer, overlapped"},
    StackRule{"=none", "", "", "ddp", ""},
};

// All rows of a stack apply.
constexpr std::array kStacks = {
    TextRule{
        "=ddp",
        "plan.strategy=ddp; kernels=eager; attention=unfused; optimizer_impl=foreach; "
        "plan.ddp.gradient_as_bucket_view=false",
        "PyTorch as it comes: native kernels, Hugging Face's modules, DDP's buckets of 25 MiB"},
    TextRule{"=ddp serial",
             "plan.strategy=ddp; kernels=eager; attention=unfused; plan.ddp.bucket_cap_mb=100000; "
             "plan.ddp.first_bucket_mb=100000",
             "all gradients are reduced after backward: one bucket for all"},
    TextRule{
        "=horovod",
        "plan.strategy=ddp; kernels=compiled; attention=unfused; plan.ddp.bucket_cap_mb=64; "
        "plan.ddp.first_bucket_mb=64; optimizer_impl=fused",
        "Horovod's fusion buffer of 64 MiB (HOROVOD_FUSION_THRESHOLD) under TensorFlow with XLA"},
    TextRule{
        "=composer",
        "plan.strategy=fsdp1; kernels=eager; loss=fused; attention=flash; optimizer_impl=for_loop; "
        "plan.fsdp1.backward_prefetch=BACKWARD_POST; plan.fsdp1.limit_all_gathers=true",
        "llm-foundry's yamls: fsdp_config with activation_checkpointing and limit_all_gathers; "
        "Composer's default is BACKWARD_POST; MPT's loss_fn is fused_crossentropy; DecoupledAdamW "
        "updates tensor by tensor"},
    TextRule{"=fsdp1",
             "plan.strategy=fsdp1; kernels=eager; attention=flash; optimizer_impl=foreach",
             "PyTorch FSDP as it comes"},
    TextRule{"=fsdp2", "plan.strategy=fsdp2; kernels=fused; attention=flash; optimizer_impl=fused",
             "fully_shard with the fused kernels of Transformer Engine"},
    TextRule{"=torchtitan",
             "plan.strategy=fsdp2; plan.fsdp2.reduce_dtype=fp32; kernels=eager; loss=eager; "
             "attention=flash; optimizer_impl=fused",
             "torchtitan: mixed_precision_reduce float32, SDPA, fused AdamW"},
    TextRule{"=megatron fsdp",
             "plan.strategy=fsdp2; kernels=fused; attention=flash; optimizer_impl=fused",
             "Megatron-FSDP shards as fully_shard does"},
    TextRule{"=xla",
             "plan.strategy=fsdp2; kernels=compiled; attention=flash; optimizer_impl=fused; "
             "recompute.granularity=full",
             "XLA fuses element-wise kernels; MaxText's default remat_policy is full"},
    TextRule{"=deepspeed",
             "plan.strategy=zero; kernels=eager; attention=flash; optimizer_impl=fused",
             "DeepSpeed with FusedAdam and its default buckets"},
    TextRule{"=deepspeed 3d",
             "plan.strategy=zero; plan.zero.stage=1; kernels=fused; attention=unfused; "
             "optimizer_impl=fused",
             "Megatron-DeepSpeed: Megatron-LM's fused softmax, bias and GELU kernels, Apex' Adam, "
             "DeepSpeed's ZeRO-1"},
    TextRule{"=deepspeed 3d zero0",
             "plan.strategy=megatron; kernels=fused; attention=unfused; optimizer_impl=fused; "
             "plan.megatron.use_distributed_optimizer=false",
             "the same without ZeRO: whole gradients are summed after backward"},
    TextRule{"deepspeed 3d",
             "plan.tensor.sequence_parallel=false; "
             "plan.tensor.async_input_gradient=false",
             "Megatron-LM of 2021: all_reduces, none behind a weight gradient", When::kTensor},
    TextRule{
        "=megatron deepspeed",
        "plan.strategy=megatron; plan.megatron.use_distributed_optimizer=false; kernels=fused; "
        "attention=unfused; optimizer_impl=fused",
        "Megatron-LM's fused kernels, its DDP without buckets, Apex' Adam"},
    TextRule{"=megatron deepspeed",
             "plan.tensor.sequence_parallel=false; plan.tensor.async_input_gradient=false",
             "Megatron-LM of 2021", When::kTensor},
    TextRule{
        "=megatron 2021",
        "plan.strategy=megatron; plan.megatron.use_distributed_optimizer=false; kernels=fused; "
        "attention=unfused; optimizer_impl=fused",
        "Megatron-LM before its core: fused softmax, bias and GELU, local DDP after backward"},
    TextRule{"=megatron 2021",
             "plan.tensor.sequence_parallel=false; plan.tensor.async_input_gradient=false",
             "sequence parallelism came in 2022", When::kTensor},
    TextRule{"=megatron core",
             "plan.strategy=megatron; plan.megatron.use_distributed_optimizer=true; kernels=fused; "
             "attention=flash; optimizer_impl=fused",
             "Megatron-LM core with Transformer Engine, no overlap unless stated"},
    TextRule{"nemo",
             "plan.strategy=megatron; plan.megatron.use_distributed_optimizer=true; kernels=fused; "
             "attention=flash; optimizer_impl=fused; plan.megatron.grad_reduce_in_fp32=false",
             "NeMo and Megatron-Bridge: Transformer Engine, gradients reduced in bf16"},
    TextRule{"nemo",
             "plan.megatron.overlap_grad_reduce=true; plan.megatron.overlap_param_gather=true",
             "the performance recipes overlap both", When::kReplicas},
};

// What a row says that names no strategy.
std::string UnstatedStrategy(const RowJob& job) {
  std::string text = "unstated";
  if (job.row().IsFilled("tp") && job.row().IsFilled("pp")) text += " degrees";
  const RowDegrees& degrees = job.degrees;
  if (degrees.gpus == 1) text = "unstated single";
  return text;
}

// The number behind `word` in "fsdp2 (shard 8)", "JAX fsdp=64 x dp"; 0: there is none.
std::int64_t NumberBehind(std::string_view text, std::string_view word) {
  const std::size_t found = text.find(word);
  if (found == std::string_view::npos) return 0;
  std::int64_t value = 0;
  for (std::size_t i = found + word.size(); i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) break;
    if (value < 1'000'000) value = value * 10 + (text[i] - '0');
  }
  return value;
}

void MapShards(RowJob& job, const std::string& strategy) {
  for (const std::string_view word : {"shard group ", "shard ", "fsdp="}) {
    const std::int64_t shards = NumberBehind(strategy, word);
    const std::int64_t ranks = job.degrees.data * job.degrees.context;
    if (shards > 0 && shards < ranks) job.SetInteger("plan.fsdp2.shard_size", shards);
    if (shards > 0) return;
  }
}

struct ShardingWord {
  std::string_view words, value;
};
constexpr std::array kShardingWords = {
    ShardingWord{"hybrid shard zero2", "_HYBRID_SHARD_ZERO2"},
    ShardingWord{"hybrid shard", "HYBRID_SHARD"}, ShardingWord{"shard grad op", "SHARD_GRAD_OP"},
    ShardingWord{"no shard", "NO_SHARD"}, ShardingWord{"full shard", "FULL_SHARD"}};

void MapSharding(RowJob& job, const std::string& strategy) {
  for (const ShardingWord& word : kShardingWords) {
    if (MatchesWords(strategy, word.words)) {
      job.Set("plan.fsdp1.sharding_strategy", std::string(word.value));
      return;
    }
  }
}

void MapZeroStage(RowJob& job, const std::string& strategy) {
  for (const char stage : {'3', '2', '1'}) {
    if (strategy.find(fmt::format("zero{}", stage)) != std::string::npos ||
        strategy.find(fmt::format("zero {}", stage)) != std::string::npos) {
      job.Set("plan.zero.stage", std::string(1, stage));
      return;
    }
  }
}

}  // namespace

void MapDegrees(RowJob& job) {
  RowDegrees& degrees = job.degrees;
  if (!job.row().IsFilled("n_gpus")) job.Skip("n_gpus", "not stated");
  degrees.gpus = job.Integer("n_gpus", 1);
  degrees.tensor = job.Integer("tp", 1);
  degrees.pipeline = job.Integer("pp", 1);
  degrees.chunks = job.Integer("vpp", 1);
  degrees.context = job.Integer("cp", 1);
  degrees.expert = job.Integer("ep", 1);
  const std::int64_t ranks = degrees.tensor * degrees.pipeline * degrees.context;
  if (degrees.gpus % ranks != 0) {
    job.Skip("n_gpus",
             fmt::format("found {}, no multiple of tp x pp x cp = {}", degrees.gpus, ranks));
    return;
  }
  degrees.data = degrees.gpus / ranks;
  const std::int64_t stated = job.Integer("dp", degrees.data);
  if (stated != degrees.data) {
    job.Skip("dp", fmt::format("found {}, but n_gpus / (tp pp cp) is {}", stated, degrees.data));
  }
}

void MapStack(RowJob& job) {
  const RowDegrees& degrees = job.degrees;
  std::string text = PlainWords(job.row().Text("strategy"));
  if (text.empty()) text = UnstatedStrategy(job);
  if (degrees.tensor * degrees.pipeline * degrees.expert > 1) text += " model parallel";
  for (const StackRule& rule : kStackRules) {
    if (!MatchesWords(text, rule.strategy)) continue;
    if (!rule.column.empty() &&
        !MatchesWords(PlainWords(job.row().Text(rule.column)), rule.content)) {
      continue;
    }
    if (rule.stack.empty()) return job.Skip("strategy", rule.why);
    if (!rule.why.empty()) job.Assume(fmt::format("strategy: {}", rule.stack), rule.why);
    job.stack = rule.stack;
    break;
  }
  if (job.stack.empty()) {
    return job.Skip("strategy", job.row().IsFilled("strategy")
                                    ? fmt::format("found '{}', of no software that is known",
                                                  job.row().Text("strategy"))
                                    : "not stated");
  }
  for (const TextRule& rule : kStacks) {
    if (MatchesWords(job.stack, rule.words)) job.Apply(rule);
  }
  if (job.stack == "composer" || job.stack == "fsdp1") MapSharding(job, text);
  if (job.stack == "deepspeed") MapZeroStage(job, text);
  if (job.Has("plan.strategy")) MapShards(job, text);
}

}  // namespace stepsim
