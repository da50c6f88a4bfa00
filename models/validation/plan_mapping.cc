// How was the work cut, and what ran beside what? Degrees, schedule, overlap, recomputation,
// element types, kernels and batches, each from its column, else as the software does it by itself.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "models/validation/mapping.h"

namespace stepsim {
namespace {

constexpr std::array kRecompute = {
    TextRule{"=none", "recompute.granularity=none", ""},
    TextRule{"", "", "as the software does by itself: nothing, except under XLA"},
    TextRule{"=full", "recompute.granularity=full", ""},
    TextRule{"selective op", "recompute.granularity=selective; recompute.policy=op", ""},
    TextRule{"selective per op", "recompute.granularity=selective; recompute.policy=op", ""},
    TextRule{"selective layer",
             "recompute.granularity=selective; recompute.policy=layer; recompute.num_layers=2", ""},
    TextRule{"=selective core attn", "recompute.granularity=selective", ""},
    TextRule{"=selective mlp",
             "recompute.granularity=selective; recompute.modules.core_attn=false; "
             "recompute.modules.mlp=true",
             ""},
    TextRule{"=selective moe",
             "recompute.granularity=selective; recompute.modules.core_attn=false; "
             "recompute.modules.moe=true",
             ""},
    TextRule{"=selective layernorm",
             "recompute.granularity=selective; recompute.modules.core_attn=false; "
             "recompute.modules.layernorm=true",
             ""},
    TextRule{"=selective moe layernorm",
             "recompute.granularity=selective; recompute.modules.core_attn=false; "
             "recompute.modules.moe=true; recompute.modules.layernorm=true",
             ""},
};
// "selective" alone is another thing in PyTorch's world and in Megatron's.
constexpr std::array kSelective = {
    TextRule{"=torchtitan", "recompute.granularity=selective; recompute.policy=op",
             "torchtitan's selective checkpointing is by operator"},
    TextRule{"", "recompute.granularity=selective", "Megatron-LM's selective recomputation"},
};

// Every row that matches applies.
constexpr std::array kOverlap = {
    TextRule{"", "", ""},
    TextRule{"=none", "", ""},
    TextRule{"none no", "", "", When::kAlways},
    TextRule{"grad reduce scatter param all gather overlapped",
             "plan.megatron.overlap_grad_reduce=true; plan.megatron.overlap_param_gather=true", "",
             When::kReplicas},
    TextRule{"dp and tp communication overlap",
             "plan.megatron.overlap_grad_reduce=true; plan.megatron.overlap_param_gather=true", "",
             When::kReplicas},
    TextRule{"nemo 2 performance recipe",
             "plan.megatron.overlap_grad_reduce=true; plan.megatron.overlap_param_gather=true", "",
             When::kReplicas},
    TextRule{"tp userbuffer", "plan.tensor.overlap=user_buffers", "", When::kTensor},
    TextRule{"dp and tp communication overlap", "plan.tensor.overlap=user_buffers", "",
             When::kTensor},
    TextRule{"nemo 2 performance recipe", "plan.tensor.overlap=user_buffers", "", When::kTensor},
    TextRule{"async tp !no", "plan.tensor.overlap=async_tp", "", When::kTensor},
    TextRule{"no async tp", "plan.tensor.overlap=none", "", When::kTensor},
    TextRule{"p2p overlap !no", "", ""},
    TextRule{"none p2p overlap", "plan.pipeline.overlap_p2p_comm=false", "", When::kInterleaved},
    TextRule{"bucketed async all reduce", "", ""},
    TextRule{"one collective per parameter", "", ""},
    TextRule{"ep overlap on",
             "plan.expert.overlap_microbatches=true; plan.expert.shared_expert_overlap=false", "",
             When::kExperts},
    TextRule{"delayed wgrad", "plan.expert.delay_weight_gradients=true", "", When::kExperts},
    TextRule{"ep overlap off", "", ""},
};

constexpr std::array kSchedule = {
    TextRule{"interleaved", "plan.pipeline.schedule=interleaved_1f1b", "", When::kInterleaved},
    TextRule{"1f1b", "", ""},
    TextRule{"", "", ""},
    TextRule{"=gpipe", "plan.pipeline.schedule=gpipe", "", When::kPipeline},
    TextRule{"zero bubble", "plan.pipeline.schedule=zb1p", "", When::kPipeline},
    TextRule{"=zbv", "plan.pipeline.schedule=zbv", "", When::kPipeline},
};

constexpr std::array kBucket = {
    TextRule{"", "", ""},
    TextRule{"none", "", ""},
    TextRule{"per parameter", "plan.ddp.bucket_cap_mb=0.0001; plan.ddp.first_bucket_mb=0.0001", ""},
    TextRule{"flat buffer", "plan.ddp.bucket_cap_mb=100000; plan.ddp.first_bucket_mb=100000", ""},
};

struct PrecisionRule {
  std::string_view words, compute, why;
};
constexpr std::array kPrecisions = {
    PrecisionRule{"nvfp4", "", "nvfp4 products are not simulated"},
    PrecisionRule{"mxfp8", "fp8", ""},
    PrecisionRule{"fp8", "fp8", ""},
    PrecisionRule{"bf16", "bf16", ""},
    PrecisionRule{"fp16", "fp16", ""},
    PrecisionRule{"tf32 default", "tf32", "PyTorch's products in fp32 use tf32 where there is one"},
    PrecisionRule{"tf32", "tf32", ""},
    PrecisionRule{"fp32", "fp32", ""},
};

// Who stores parameters in 32 bit and casts them?
constexpr std::array kFp32Parameters = {"ddp",   "ddp serial", "horovod", "composer",     "fsdp1",
                                        "fsdp2", "torchtitan", "xla",     "megatron fsdp"};

constexpr std::array kAttention = {
    TextRule{"", "", ""},
    TextRule{"=n", "attention=unfused", ""},
    TextRule{"y", "attention=flash", ""},
};
constexpr std::array kCompile = {
    TextRule{"", "", ""},
    TextRule{"=n", "", ""},
    TextRule{"=y", "kernels=compiled", ""},
};
constexpr std::array kOptimizer = {
    TextRule{"", "", ""},
    TextRule{"sgd", "optimizer=sgd_momentum", ""},
    TextRule{"fused", "optimizer=adamw; optimizer_impl=fused", ""},
    TextRule{"lamb", "optimizer=adamw; optimizer_impl=fused", ""},
    TextRule{"decoupled adamw", "optimizer=adamw; optimizer_impl=for_loop", ""},
    TextRule{"adam", "optimizer=adamw", ""},
};

// Fused attention is as fast as its generation: the profiles have FlashAttention-2 on Ampere and
// the vendor's own on Hopper and later.
struct AttentionKernelRule {
  std::string_view stack, flash, gpu;  // words; "" in `stack`: any
  std::string_view settings;
  std::string_view why;
};
constexpr std::array kAttentionKernels = {
    AttentionKernelRule{"composer", "y", "a100", "hardware.gpu.attention_efficiency=0.32",
                        "llm-foundry's attn_impl triton is FlashAttention-1: 100 to 110 TFLOP/s "
                        "forward and backward, causal, heads of 128 (FlashAttention-2 paper)"},
    AttentionKernelRule{"composer", "y", "h100", "hardware.gpu.attention_efficiency=0.15",
                        "the same code without Hopper's instructions: A100's rate times SMs and "
                        "clock, 132 x 1.7 GHz over 108 x 1.41 GHz"},
    AttentionKernelRule{"", "sdpa", "h100", "hardware.gpu.attention_efficiency=0.32",
                        "PyTorch's SDPA runs FlashAttention-2: 335 TFLOP/s forward and backward on "
                        "H100 (FlashAttention-2 paper)"},
    AttentionKernelRule{"", "sdpa", "h200", "hardware.gpu.attention_efficiency=0.32", "as on H100"},
};

void MapAttentionKernel(RowJob& job) {
  const std::string flash = PlainWords(job.row().Text("flash_attention"));
  const std::string gpu = PlainWords(job.row().Text("gpu"));
  for (const AttentionKernelRule& rule : kAttentionKernels) {
    const bool is_stack = rule.stack.empty() || MatchesWords(job.stack, rule.stack);
    if (!is_stack || !MatchesWords(flash, rule.flash) || !MatchesWords(gpu, rule.gpu)) continue;
    for (const auto& [path, value] : ParseRuleSettings(rule.settings)) job.Set(path, value);
    return job.Assume("attention kernel", rule.why);
  }
}

bool IsMegatron(const RowJob& job) {
  return MatchesWords(job.stack, "!fsdp megatron") || MatchesWords(job.stack, "nemo");
}

void MapRecompute(RowJob& job) {
  if (PlainWords(job.row().Text("recompute")) == "selective") {
    const TextRule* rule = FindRule(job.stack, kSelective);
    job.Apply(rule != nullptr ? *rule : kSelective.back());
    return;
  }
  job.ApplyFirst("recompute", kRecompute);
}

void MapSequenceParallel(RowJob& job) {
  const std::string_view text = job.row().Text("sequence_parallel");
  if (text != "" && text != "y" && text != "n") {
    job.Skip("sequence_parallel", fmt::format("found '{}', allowed: y, n", text));
  }
  if (job.degrees.tensor == 1 || text.empty()) return;
  job.Set("plan.tensor.sequence_parallel", text == "y" ? "true" : "false");
}

void MapBucket(RowJob& job) {
  const std::string_view text = job.row().Text("bucket_mb");
  if (const auto size = job.row().Number("bucket_mb")) {
    job.Set("plan.ddp.bucket_cap_mb", std::string(text));
    job.Set("plan.ddp.first_bucket_mb", std::string(text));
    return;
  }
  job.ApplyFirst("bucket_mb", kBucket);
}

// Where layers do not come out even, Megatron counts the embedding and the head as a layer each
// (account_for_embedding_in_pipeline_split and its twin for the loss): 126 + 2 over 128 stages.
void MapBalance(RowJob& job) {
  const std::int64_t stages = job.degrees.pipeline * job.degrees.chunks;
  const std::int64_t layers = job.Integer("n_layers", 0);
  if (layers == 0 || job.degrees.pipeline == 1 || layers % stages == 0) return;
  if ((layers + 2) % stages != 0) return;
  job.Set("plan.pipeline.balance", "ends");
  job.Assume("embedding and head count as layers of the pipeline", "layers + 2 come out even");
}

// Megatron-Bridge's recipes leave experts whole (expert_tensor_parallel_size 1).
void MapExpertTensor(RowJob& job) {
  if (job.degrees.expert == 1 || job.degrees.tensor == 1 || !MatchesWords(job.stack, "nemo"))
    return;
  if (!job.row().IsFilled("n_experts")) return;
  job.Set("plan.expert.tensor_parallel", "1");
  job.Assume("expert_tensor_parallel_size: 1", "as Megatron-Bridge's recipes");
}

void SetDegrees(RowJob& job) {
  const RowDegrees& degrees = job.degrees;
  const auto set = [&](const char* path, std::int64_t value) {
    if (value > 1) job.SetInteger(path, value);
  };
  set("plan.tensor_parallel", degrees.tensor);
  set("plan.pipeline_parallel", degrees.pipeline);
  set("plan.context_parallel", degrees.context);
  set("plan.expert_parallel", degrees.expert);
  if (degrees.chunks > 1 && degrees.pipeline > 1) {
    job.SetInteger("plan.pipeline.virtual_stages", degrees.chunks);
    job.Set("plan.pipeline.schedule",
            IsMegatron(job) ? "megatron_interleaved" : "interleaved_1f1b");
  }
}

}  // namespace

void MapPlan(RowJob& job) {
  SetDegrees(job);
  MapBalance(job);
  MapExpertTensor(job);
  MapRecompute(job);
  job.ApplyAll("overlap", kOverlap);
  if (!job.Has("plan.pipeline.schedule")) job.ApplyFirst("schedule", kSchedule);
  MapSequenceParallel(job);
  MapBucket(job);
}

void MapPrecision(RowJob& job) {
  const std::string text = PlainWords(job.row().Text("precision"));
  const std::string named = text.empty() ? PlainWords(job.row().Text("notes")) : text;
  std::string compute;
  for (const PrecisionRule& rule : kPrecisions) {
    if (!MatchesWords(named, rule.words)) continue;
    if (rule.compute.empty()) return job.Skip("precision", rule.why);
    compute = rule.compute;
    break;
  }
  if (text.empty()) {
    job.Assume(fmt::format("precision: {}", compute.empty() ? "bf16" : compute),
               compute.empty() ? "not stated" : "named in the notes");
    if (compute.empty()) compute = "bf16";
  } else if (compute.empty()) {
    return job.Skip("precision",
                    fmt::format("found '{}', known: fp32, tf32, fp16, bf16, fp8", text));
  }
  const bool is_volta = MatchesWords(PlainWords(job.row().Text("gpu")), "v100") ||
                        MatchesWords(PlainWords(job.row().Text("gpu")), "t4");
  if (is_volta && compute == "tf32") compute = "fp32";
  job.precision = compute;
  job.Set("precision.compute", compute);
  const bool keeps_fp32 =
      std::find(kFp32Parameters.begin(), kFp32Parameters.end(), job.stack) != kFp32Parameters.end();
  const std::string kept = compute == "fp8" ? "bf16" : compute == "tf32" ? "fp32" : compute;
  job.Set("precision.parameters", keeps_fp32 ? "fp32" : kept);
}

void MapSoftware(RowJob& job) {
  job.ApplyFirst("flash_attention", kAttention);
  MapAttentionKernel(job);
  job.ApplyFirst("torch_compile", kCompile);
  job.ApplyFirst("optimizer", kOptimizer);
}

void MapBatch(RowJob& job) {
  const PublishedRow& row = job.row();
  const std::int64_t replicas = job.degrees.data;
  std::int64_t micro = job.Integer("micro_batch", 0), steps = job.Integer("grad_accum", 0);
  const std::int64_t global = job.Integer("global_batch", 0);
  if (job.IsSkipped()) return;
  const std::int64_t local = global / std::max<std::int64_t>(replicas, 1);
  if (micro == 0 && local > 0 && steps > 0) micro = local / steps;
  if (micro == 0 && local > 0) {
    micro = job.degrees.pipeline > 1 || IsMegatron(job) ? 1 : local;
    job.Assume(fmt::format("micro_batch: {}", micro), "not stated");
  }
  if (micro == 0) return job.Skip("micro_batch", "not stated, nor global_batch");
  if (steps == 0) {
    steps = local > 0 ? std::max<std::int64_t>(local / micro, 1) : 1;
    if (local == 0) job.Assume("grad_accum: 1", "not stated");
  }
  constexpr std::int64_t kMostSteps = 1'000'000;
  if (steps > kMostSteps) return job.Skip("grad_accum", fmt::format("found {}", steps));
  job.SetInteger("batch.micro_batch_size", micro);
  job.SetInteger("batch.gradient_accumulation_steps", steps);
  const bool has_tokens = job.Has("model.transformer");
  if (!has_tokens) return;
  std::int64_t tokens = job.Integer("seq_len", 0);
  if (tokens == 0) {
    if (!MatchesWords(PlainWords(row.Text("model")), "bert")) {
      return job.Skip("seq_len", "not stated");
    }
    const bool is_squad = MatchesWords(PlainWords(row.Text("notes")), "squad");
    tokens = is_squad ? 384 : 128;
    job.Assume(fmt::format("seq_len: {}", tokens),
               is_squad ? "SQuAD's usual length" : "BERT's first phase");
    if (is_squad) job.Set("model.transformer.mlm_head", "false");
    if (is_squad) job.Set("model.transformer.next_sentence_head", "false");
  }
  job.SetInteger("batch.sequence_length", tokens);
}

}  // namespace stepsim
