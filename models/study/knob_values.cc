#include "models/study/knob_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "models/pipeline/schedule.h"
#include "models/spec/pipeline_rules.h"
#include "models/spec/sharding.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

using Values = std::vector<KnobValue>;

template <class T>
std::string Set(std::string_view path, const T& value) {
  return fmt::format("{}={}", path, value);
}

std::vector<std::int64_t> DivisorsOf(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// The words of one key.
Values Words(std::string_view path, std::initializer_list<std::string_view> words) {
  Values values;
  for (const std::string_view word : words)
    values.push_back({std::string(word), {Set(path, word)}});
  return values;
}

std::string Millions(std::int64_t elements) {
  return fmt::format("{}M elements", FormatCount(static_cast<double>(elements) / 1e6));
}

// A key counted in elements, of megatron or zero.
Values Elements(std::string_view path, std::initializer_list<std::int64_t> millions,
                const JobSpec& job, std::string_view other = "") {
  Values values;
  for (const std::int64_t m : millions) {
    const std::int64_t elements = m * 1'000'000;
    values.push_back({Millions(elements), {Set(path, elements)}});
    if (!other.empty() && job.is_given(other)) values.back().changes.push_back(Set(other, "null"));
  }
  return values;
}

}  // namespace

Values BucketValues(const JobSpec& job, const KnobLimits&) {
  if (Uses(job, "megatron")) {
    return Elements("plan.megatron.ddp_bucket_size", {10, 20, 40, 80, 160, 320, 640, 1280}, job,
                    "plan.megatron.ddp_num_buckets");
  }
  if (Uses(job, "zero")) {
    return Elements("plan.zero.reduce_bucket_size", {10, 25, 50, 100, 200, 500, 1000, 2000}, job);
  }
  Values values;
  for (const std::int64_t size : {1, 2, 5, 10, 25, 50, 100, 200, 400, 800}) {
    values.push_back({fmt::format("{} MiB", size), {Set("plan.ddp.bucket_cap_mb", size)}});
    for (const char* other : {"plan.ddp.bucket_cap_mb_list", "plan.ddp.first_bucket_mb"}) {
      if (job.is_given(other)) values.back().changes.push_back(Set(other, "null"));
    }
  }
  return values;
}

Values PrefetchValues(const JobSpec& job, const KnobLimits&) {
  if (Uses(job, "zero")) {
    return Elements("plan.zero.stage3_prefetch_bucket_size", {0, 5, 20, 50, 100, 200, 500}, job);
  }
  Values values;
  if (Uses(job, "fsdp1")) {
    const bool keeps = !ReshardsAfterForward(job.plan.fsdp1.sharding_strategy);
    for (const char* backward : {"none", "BACKWARD_POST", "BACKWARD_PRE"}) {
      for (const bool forward : {false, true}) {
        if (keeps && backward[0] == 'n') continue;  // nothing is gathered in backward
        Changes changes = {Set("plan.fsdp1.forward_prefetch", forward)};
        if (!keeps) changes.push_back(Set("plan.fsdp1.backward_prefetch", backward));
        if (keeps && std::string_view(backward) == "BACKWARD_POST") continue;
        values.push_back({fmt::format("forward {}{}{}", forward ? "on" : "off",
                                      keeps ? "" : ", backward ", keeps ? "" : backward),
                          std::move(changes)});
      }
    }
    return values;
  }
  const bool keeps = !ReshardingOf(job).groups;
  for (const std::int64_t forward : {0, 1, 2}) {
    for (const std::int64_t backward : {0, 1, 2, 3}) {
      if (keeps && backward > 0) continue;
      Changes changes = {Set("plan.fsdp2.forward_prefetch", forward)};
      if (!keeps) changes.push_back(Set("plan.fsdp2.backward_prefetch", backward));
      values.push_back({keeps ? fmt::format("forward {}", forward)
                              : fmt::format("forward {}, backward {}", forward, backward),
                        std::move(changes)});
    }
  }
  return values;
}

Values ReshardValues(const JobSpec& job, const KnobLimits&) {
  if (Uses(job, "fsdp1")) {
    constexpr std::string_view kPath = "plan.fsdp1.sharding_strategy";
    return IsHybrid(job.plan.fsdp1.sharding_strategy)
               ? Words(kPath, {"HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"})
               : Words(kPath, {"FULL_SHARD", "SHARD_GRAD_OP"});
  }
  constexpr std::string_view kPath = "plan.fsdp2.reshard_after_forward";
  Values values = Words(kPath, {"auto", "true", "false"});
  const std::int64_t node = job.gpus_per_node / job.plan.tensor_parallel;
  if (node > 1 && node < ShardingOf(job).shards) {
    values.push_back({fmt::format("over {} ranks", node), {Set(kPath, node)}});
  }
  return values;
}

Values OverlapValues(const JobSpec& job, const KnobLimits&) {
  if (Uses(job, "zero")) {
    return {{"off", {Set("plan.zero.overlap_comm", false)}},
            {"on", {Set("plan.zero.overlap_comm", true)}}};
  }
  const auto changes = [](bool reduce, bool gather) {
    return Changes{Set("plan.megatron.overlap_grad_reduce", reduce),
                   Set("plan.megatron.overlap_param_gather", gather)};
  };
  Values values = {{"off", changes(false, false)}, {"gradients", changes(true, false)}};
  if (job.plan.megatron.use_distributed_optimizer) {
    values.push_back({"gradients and parameters", changes(true, true)});
  }
  return values;
}

Values SyncValues(const JobSpec& job, const KnobLimits&) {
  const bool is_fsdp2 = Uses(job, "fsdp2");
  const std::string path = is_fsdp2 ? "plan.fsdp2.requires_gradient_sync"
                                    : fmt::format("plan.{}.no_sync", job.plan.strategy);
  return {{"every micro-step", {Set(path, is_fsdp2)}}, {"once", {Set(path, !is_fsdp2)}}};
}

Values MicroBatchValues(const JobSpec& job, const KnobLimits& limits) {
  const std::int64_t all = job.batch.micro_batch_size * job.batch.gradient_accumulation_steps;
  const auto value = [](std::int64_t micro, std::int64_t steps) {
    return KnobValue{
        fmt::format("{} x {} micro-step{}", micro, steps, steps == 1 ? "" : "s"),
        {Set("batch.micro_batch_size", micro), Set("batch.gradient_accumulation_steps", steps)}};
  };
  Values values;
  for (const std::int64_t micro : DivisorsOf(all)) {
    const bool is_power_of_2 = (micro & (micro - 1)) == 0;
    constexpr std::int64_t kFew = 64;  // of more samples only powers of two, and all at once
    if (all > kFew && !is_power_of_2 && micro != all) continue;
    values.push_back(value(micro, all / micro));
  }
  if (limits.keeps_batch) return values;
  for (const std::int64_t factor : {2, 4, 8}) {
    values.push_back(
        value(job.batch.micro_batch_size * factor, job.batch.gradient_accumulation_steps));
    if (job.is_given("batch.global_batch_size")) {
      values.back().changes.push_back("batch.global_batch_size=null");
    }
  }
  return values;
}

Values RecomputeValues(const JobSpec& job, const KnobLimits&) {
  const std::string none = "recompute.granularity=none";
  const std::string some = "recompute.granularity=selective";
  const std::string full = "recompute.granularity=full";
  const std::string all = "recompute.method=uniform";
  const auto modules = [&](bool attention, bool mlp) {
    return Changes{some, "recompute.policy=modules", Set("recompute.modules.core_attn", attention),
                   Set("recompute.modules.mlp", mlp)};
  };
  Values values = {{"none", {none}}};
  if (Uses(job, "megatron")) {
    // Flash attention makes its scores anew anyway.
    if (job.attention == AttentionKind::kUnfused) {
      values.push_back({"core_attn", modules(true, false)});
      values.push_back({"core_attn, mlp", modules(true, true)});
    } else {
      values.push_back({"mlp", modules(false, true)});
    }
    const std::int64_t half = TransformerOf(job)->layers / 2;
    if (half > 0 && job.plan.pipeline_parallel == 1) {
      values.push_back({fmt::format("full, {} layers", half),
                        {full, "recompute.method=block", Set("recompute.num_layers", half)}});
    }
  } else if (!Uses(job, "zero")) {
    values.push_back({"op", {some, "recompute.policy=op"}});
    values.push_back(
        {"every 2nd layer", {some, "recompute.policy=layer", "recompute.num_layers=2"}});
  }
  values.push_back({"full", {full, all, "recompute.num_layers=1"}});
  return values;
}

namespace {

Values ZeroStages(const JobSpec& job) {
  Values values;
  for (const std::int64_t stage : {1, 2, 3}) {
    values.push_back({fmt::format("ZeRO-{}", stage), {Set("plan.zero.stage", stage)}});
  }
  if (job.gpus_per_node > 1 && job.nodes > 1) {
    values.push_back({fmt::format("ZeRO-3, hpZ {}", job.gpus_per_node),
                      {Set("plan.zero.stage", std::int64_t{3}),
                       Set("plan.zero.zero_hpz_partition_size", job.gpus_per_node)}});
  }
  return values;
}

Values MegatronOptimizers(const JobSpec& job) {
  constexpr std::string_view kInstances = "plan.megatron.num_distributed_optimizer_instances";
  const auto changes = [&](bool is_distributed, std::int64_t instances) {
    return Changes{Set("plan.megatron.use_distributed_optimizer", is_distributed),
                   Set("plan.megatron.overlap_param_gather",
                       is_distributed && job.plan.megatron.overlap_grad_reduce),
                   Set(kInstances, instances)};
  };
  Values values = {{"replicated optimizer", changes(false, 1)},
                   {"distributed optimizer", changes(true, 1)}};
  const std::int64_t ranks = job.gradient_ranks();
  const std::int64_t node = job.gpus_per_node / job.plan.tensor_parallel;
  if (node > 1 && ranks > node && ranks % node == 0) {
    values.push_back({fmt::format("distributed optimizer, {} instances", ranks / node),
                      changes(true, ranks / node)});
  }
  return values;
}

}  // namespace

namespace {

// What gradients are reduced in: DDP has them as the parameters are.
DType ReductionOf(const JobSpec& job) {
  return Uses(job, "ddp") ? job.precision.parameters : ShardingOf(job).reduce;
}

}  // namespace

// PyTorch's strategies are told from one script; reductions stay as wide as they are.
Values ShardingValues(const JobSpec& job, const KnobLimits&) {
  if (Uses(job, "zero")) return ZeroStages(job);
  if (Uses(job, "megatron")) return MegatronOptimizers(job);
  constexpr std::string_view kStrategy = "plan.strategy";
  const std::int64_t node = job.gpus_per_node / job.plan.tensor_parallel;
  const std::int64_t ranks = job.gradient_ranks();
  const bool has_copies = node > 1 && ranks > node && ranks % node == 0;
  Values values;
  Changes ddp = {Set(kStrategy, "ddp")};
  if (!Uses(job, "ddp")) ddp.push_back("plan.ddp.gradient_as_bucket_view=true");
  values.push_back({"ddp", std::move(ddp)});
  if (Uses(job, "fsdp1")) {
    values.push_back({"fsdp1", {Set(kStrategy, "fsdp1")}});
    const bool keeps = !ReshardsAfterForward(job.plan.fsdp1.sharding_strategy);
    if (has_copies) {
      values.push_back(
          {"fsdp1, hybrid",
           {Set(kStrategy, "fsdp1"),
            Set("plan.fsdp1.sharding_strategy", keeps ? "_HYBRID_SHARD_ZERO2" : "HYBRID_SHARD")}});
    }
  }
  const Changes fsdp2 = {Set(kStrategy, "fsdp2"),
                         Set("plan.fsdp2.reduce_dtype", ToString(ReductionOf(job)))};
  const auto sharded = [&](std::int64_t size) {
    Changes changes = fsdp2;
    changes.push_back(Set("plan.fsdp2.shard_size", size));
    return changes;
  };
  values.push_back({"fsdp2", sharded(0)});
  if (has_copies) {
    values.push_back({fmt::format("fsdp2, HSDP over {} ranks", node), sharded(node)});
  }
  return values;
}

namespace {

// What a degree of tensor parallelism brings along in the job's framework: DeepSpeed's AutoTP has
// whole sequences and a whole head.
void AddTensorHabits(const JobSpec& job, std::int64_t tensor, Changes* changes) {
  if (tensor == 1 || !Uses(job, "zero")) return;
  changes->push_back("plan.tensor.sequence_parallel=false");
  changes->push_back("plan.tensor.vocabulary_parallel_loss=false");
}

}  // namespace

// Tensor parallel ranks share a node. The micro-batch stays where the samples of a replica are a
// multiple of it.
Values SplitValues(const JobSpec& job, const KnobLimits&) {
  Values values;
  const std::int64_t samples = job.global_samples();
  const std::int64_t layers = TransformerOf(job)->layers;
  const std::int64_t context = job.plan.context_parallel;
  for (const std::int64_t tensor : DivisorsOf(job.gpus_per_node)) {
    if (job.gpus() % (tensor * context) != 0) continue;
    for (const std::int64_t pipeline : DivisorsOf(job.gpus() / (tensor * context))) {
      const std::int64_t replicas = job.gpus() / (tensor * context * pipeline);
      if (pipeline > layers || samples % replicas != 0) continue;
      const std::int64_t own = samples / replicas;
      std::int64_t micro = std::min(job.batch.micro_batch_size, own);
      while (own % micro != 0) --micro;
      Changes changes = {Set("plan.tensor_parallel", tensor),
                         Set("plan.pipeline_parallel", pipeline),
                         Set("batch.micro_batch_size", micro),
                         Set("batch.gradient_accumulation_steps", own / micro)};
      if (job.is_given("plan.data_parallel")) changes.push_back("plan.data_parallel=null");
      if (job.is_given("plan.pipeline.layers_per_stage") &&
          pipeline != job.plan.pipeline_parallel) {
        changes.push_back("plan.pipeline.layers_per_stage=null");
      }
      AddTensorHabits(job, tensor, &changes);
      values.push_back(
          {fmt::format("tp {} x pp {} x dp {}", tensor, pipeline, replicas), std::move(changes)});
    }
  }
  return values;
}

Values ScheduleValues(const JobSpec& job, const KnobLimits&) {
  std::vector<std::string_view> names = {"1f1b", "interleaved_1f1b"};
  if (RuntimeOf(job) == PipelineRuntime::kPytorch) {
    names = {"gpipe", "1f1b", "interleaved_1f1b", "looped_bfs", "zb1p", "zbv", "dualpipev"};
  }
  if (Uses(job, "zero")) names = {"1f1b"};
  Values values;
  for (const std::string_view name : names) {
    values.push_back({std::string(name),
                      {Set("plan.pipeline.schedule", name),
                       Set("plan.pipeline.virtual_stages", std::int64_t{0})}});
  }
  return values;
}

// One chunk is 1F1B, several interleave.
Values VirtualStageValues(const JobSpec& job, const KnobLimits&) {
  const ScheduleRow* row = FindSchedule(job.plan.pipeline.schedule);
  if (row == nullptr || row->placement != StagePlacement::kLoop || Uses(job, "zero")) return {};
  const bool interleaves = row->default_chunks > 1;
  const std::string_view name = interleaves ? row->name : "interleaved_1f1b";
  Values values = {{"1", {"plan.pipeline.schedule=1f1b", "plan.pipeline.virtual_stages=1"}}};
  const std::int64_t most = TransformerOf(job)->layers / job.plan.pipeline_parallel;
  for (std::int64_t chunks = 2; chunks <= most; ++chunks) {
    if (TransformerOf(job)->layers % (chunks * job.plan.pipeline_parallel) != 0) continue;
    values.push_back(
        {fmt::format("{}", chunks),
         {Set("plan.pipeline.schedule", name), Set("plan.pipeline.virtual_stages", chunks)}});
  }
  return values;
}

Values AlgorithmValues(const JobSpec&, const KnobLimits&) {
  Values values = {{"NCCL's choice", {"collectives.algorithm=null"}}};
  for (const char* name : {"ring", "allreduce:ring", "allreduce:tree", "allreduce:nvls",
                           "allreduce:nvlstree", "^nvls,nvlstree"}) {
    values.push_back({name, {Set("collectives.algorithm", std::string_view(name))}});
  }
  return values;
}

Values ProtocolValues(const JobSpec&, const KnobLimits&) {
  Values values = {{"NCCL's choice", {"collectives.protocol=null"}}};
  for (const char* name : {"ll", "ll128", "simple", "^ll", "^ll128"}) {
    values.push_back({name, {Set("collectives.protocol", std::string_view(name))}});
  }
  return values;
}

Values CtaValues(const JobSpec&, const KnobLimits&) {
  Values values = {{"NCCL's choice", {"collectives.max_ctas=0"}}};
  for (const std::int64_t most : {1, 2, 4, 8, 16, 32}) {
    values.push_back({fmt::format("{}", most), {Set("collectives.max_ctas", most)}});
  }
  return values;
}

}  // namespace stepsim
