#include "models/study/actions.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "models/spec/sharding.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

using Job = const JobSpec&;
using Candidates = std::vector<Changes>;

// One candidate for each value: "path=value".
template <class T>
Candidates Values(std::string_view path, std::initializer_list<T> values) {
  Candidates candidates;
  for (const T& value : values) candidates.push_back({fmt::format("{}={}", path, value)});
  return candidates;
}

bool Communicates(Job j) { return j.gpus() > 1 && j.plan.communicates(); }
bool HasPipeline(Job j) { return j.plan.pipeline_parallel > 1; }
bool HasTensor(Job j) { return j.plan.tensor_parallel > 1; }
bool IsZero3(Job j) { return Uses(j, "zero") && j.plan.zero.stage == 3; }
bool IsZero12(Job j) { return Uses(j, "zero") && j.plan.zero.stage < 3; }
bool ReducesInFp32(Job j) { return ShardingOf(j).reduce == DType::kFp32; }
bool ShardsAll1(Job j) {
  return Uses(j, "fsdp1") && j.plan.fsdp1.sharding_strategy == ShardingStrategy::kFullShard;
}
bool IsFlat(Job j) { return j.plan.model_ranks() == 1 && j.plan.expert_parallel == 1; }

// Half as many ranks in a group: twice as many copies, which do with half the micro-steps.
Changes WithHalf(Job j, std::string_view degree, std::int64_t ranks) {
  Changes changes =
      BatchChanges(j, j.batch.micro_batch_size, j.batch.gradient_accumulation_steps / 2);
  changes.push_back(fmt::format("plan.{}={}", degree, ranks / 2));
  if (j.is_given("plan.data_parallel")) changes.emplace_back("plan.data_parallel=null");
  return changes;
}
bool HasEvenSteps(Job j) { return j.batch.gradient_accumulation_steps % 2 == 0; }

Changes Twice(std::string_view path, Bandwidth now) {
  return {fmt::format("hardware.{}={}", path, WriteQuantity(2 * now.value, Unit::kBandwidth))};
}

constexpr std::string_view kRounds = "rounds gradients to bf16 on the wire";
constexpr std::string_view kLargerBatch = "twice the global batch: per token";
constexpr Against kComm = Against::kCommunication;

constexpr std::array kActions = {
    // ---- when and how gradients and parameters travel ----
    NextAction{"bucket size", kComm,
               [](Job j) { return Uses(j, "ddp") && j.plan.ddp.bucket_cap_mb_list.empty(); },
               [](Job) {
                 return Values("plan.ddp.bucket_cap_mb", {10, 50, 100, 200, 400});
               },
               ""},
    NextAction{
        "bucket size", kComm, [](Job j) { return IsZero12(j) || IsZero3(j); },
        [](Job) {
          return Values("plan.zero.reduce_bucket_size", {50'000'000, 100'000'000, 200'000'000});
        },
        ""},
    NextAction{"bucket size", kComm,
               [](Job j) { return Uses(j, "megatron") && j.plan.megatron.overlap_grad_reduce; },
               [](Job) {
                 return Values("plan.megatron.ddp_bucket_size",
                               {20'000'000, 80'000'000, 160'000'000, 320'000'000});
               },
               ""},
    NextAction{"overlap reductions with backward", kComm,
               [](Job j) { return Uses(j, "megatron") && !j.plan.megatron.overlap_grad_reduce; },
               [](Job) { return Candidates{{"plan.megatron.overlap_grad_reduce=true"}}; }, ""},
    NextAction{"overlap gathers with forward", kComm,
               [](Job j) {
                 return Uses(j, "megatron") && j.plan.megatron.use_distributed_optimizer &&
                        !j.plan.megatron.overlap_param_gather;
               },
               [](Job) {
                 return Candidates{{"plan.megatron.overlap_grad_reduce=true",
                                    "plan.megatron.overlap_param_gather=true"}};
               },
               ""},
    NextAction{"overlap reductions with backward", kComm,
               [](Job j) { return Uses(j, "zero") && !j.plan.zero.overlaps(); },
               [](Job) { return Candidates{{"plan.zero.overlap_comm=true"}}; }, ""},
    NextAction{"prefetch deeper", kComm, [](Job j) { return Uses(j, "fsdp2"); },
               [](Job) {
                 return Candidates{
                     {"plan.fsdp2.forward_prefetch=1"},
                     {"plan.fsdp2.forward_prefetch=2", "plan.fsdp2.backward_prefetch=2"}};
               },
               ""},
    NextAction{"prefetch in forward", kComm,
               [](Job j) { return Uses(j, "fsdp1") && !j.plan.fsdp1.forward_prefetch; },
               [](Job) { return Candidates{{"plan.fsdp1.forward_prefetch=true"}}; }, ""},
    NextAction{"no limit of gathers", kComm,
               [](Job j) { return Uses(j, "fsdp1") && j.plan.fsdp1.limit_all_gathers; },
               [](Job) { return Candidates{{"plan.fsdp1.limit_all_gathers=false"}}; }, ""},
    NextAction{"prefetch more", kComm, IsZero3,
               [](Job) {
                 return Values("plan.zero.stage3_prefetch_bucket_size", {200'000'000, 500'000'000});
               },
               ""},
    NextAction{"reductions on a communicator of their own", kComm,
               [](Job j) { return Uses(j, "fsdp2") && !j.plan.fsdp2.separate_reduce_group; },
               [](Job) { return Candidates{{"plan.fsdp2.separate_reduce_group=true"}}; },
               "not in PyTorch yet"},
    // ---- fewer bytes ----
    NextAction{"reduce in bf16", kComm,
               [](Job j) { return Uses(j, "ddp") && j.plan.ddp.comm_hook == CommHook::kNone; },
               [](Job) { return Candidates{{"plan.ddp.comm_hook=bf16_compress"}}; }, kRounds},
    NextAction{"reduce in bf16", kComm, [](Job j) { return Uses(j, "fsdp2") && ReducesInFp32(j); },
               [](Job) { return Candidates{{"plan.fsdp2.reduce_dtype=bf16"}}; }, kRounds},
    NextAction{"reduce in bf16", kComm, [](Job j) { return Uses(j, "fsdp1") && ReducesInFp32(j); },
               [](Job) { return Candidates{{"plan.fsdp1.reduce_dtype=bf16"}}; }, kRounds},
    NextAction{"reduce in bf16", kComm, [](Job j) { return Uses(j, "zero") && ReducesInFp32(j); },
               [](Job) { return Candidates{{"plan.zero.communication_data_type=bf16"}}; }, kRounds},
    NextAction{
        "reduce in bf16", kComm, [](Job j) { return Uses(j, "megatron") && ReducesInFp32(j); },
        [](Job) { return Candidates{{"plan.megatron.grad_reduce_in_fp32=false"}}; }, kRounds},
    NextAction{"keep parameters for backward", kComm,
               [](Job j) { return Uses(j, "fsdp2") && ReshardingOf(j).groups; },
               [](Job) { return Candidates{{"plan.fsdp2.reshard_after_forward=false"}}; }, ""},
    NextAction{"keep parameters for backward", kComm, ShardsAll1,
               [](Job) { return Candidates{{"plan.fsdp1.sharding_strategy=SHARD_GRAD_OP"}}; }, ""},
    NextAction{"shard within a node (HSDP)", kComm,
               [](Job j) { return Uses(j, "fsdp2") && j.nodes > 1 && ShardingOf(j).replicas == 1; },
               [](Job j) { return Values("plan.fsdp2.shard_size", {j.gpus_per_node}); }, ""},
    NextAction{"shard within a node (HSDP)", kComm,
               [](Job j) { return ShardsAll1(j) && j.nodes > 1; },
               [](Job) { return Candidates{{"plan.fsdp1.sharding_strategy=HYBRID_SHARD"}}; }, ""},
    NextAction{"shard gradients and optimizer alone", kComm, IsZero3,
               [](Job) { return Values("plan.zero.stage", {2}); }, ""},
    NextAction{"do not shard", kComm,
               [](Job j) { return (Uses(j, "fsdp1") || Uses(j, "fsdp2")) && IsFlat(j); },
               [](Job) { return Candidates{{"plan.strategy=ddp"}}; }, ""},
    // ---- inside layers ----
    NextAction{
        "overlap inside layers", kComm,
        [](Job j) { return HasTensor(j) && j.plan.tensor.overlap == TensorOverlap::kNone; },
        [](Job) {
          return Candidates{{"plan.tensor.overlap=async_tp"}, {"plan.tensor.overlap=user_buffers"}};
        },
        "another framework's kernels"},
    NextAction{
        "smaller tensor-parallel groups", kComm,
        [](Job j) { return HasTensor(j) && HasEvenSteps(j); },
        [](Job j) { return Candidates{WithHalf(j, "tensor_parallel", j.plan.tensor_parallel)}; },
        ""},
    NextAction{"another exchange of keys and values", kComm,
               [](Job j) { return j.plan.context_parallel > 1; },
               [](Job) {
                 return Values("plan.context.comm_type", {"p2p", "all_gather", "a2a"});
               },
               ""},
    NextAction{
        "exchange beside another micro-batch", kComm,
        [](Job j) { return j.plan.expert_parallel > 1 && !j.plan.expert.overlap_microbatches; },
        [](Job) { return Candidates{{"plan.expert.overlap_microbatches=true"}}; }, ""},
    NextAction{"CTAs of collectives", kComm, Communicates,
               [](Job) {
                 return Values("collectives.max_ctas", {4, 8, 16});
               },
               ""},
    // ---- pipelines ----
    NextAction{"another schedule", Against::kBubble, HasPipeline,
               [](Job j) {
                 Candidates candidates;
                 for (const char* name : {"interleaved_1f1b", "zb1p", "zbv"}) {
                   if (j.plan.pipeline.schedule == name) continue;
                   candidates.push_back({fmt::format("plan.pipeline.schedule={}", name),
                                         "plan.pipeline.virtual_stages=0"});
                 }
                 return candidates;
               },
               ""},
    NextAction{"more virtual stages", Against::kBubble,
               [](Job j) { return HasPipeline(j) && j.plan.pipeline.virtual_stages > 1; },
               [](Job j) {
                 return Values(
                     "plan.pipeline.virtual_stages",
                     {2 * j.plan.pipeline.virtual_stages, 4 * j.plan.pipeline.virtual_stages});
               },
               ""},
    NextAction{"more and smaller micro-batches", Against::kBubble,
               [](Job j) { return HasPipeline(j) && j.batch.micro_batch_size % 2 == 0; },
               [](Job j) {
                 return Candidates{BatchChanges(j, j.batch.micro_batch_size / 2,
                                                2 * j.batch.gradient_accumulation_steps)};
               },
               ""},
    NextAction{"fewer stages", Against::kAnything,
               [](Job j) { return HasPipeline(j) && HasEvenSteps(j); },
               [](Job j) {
                 return Candidates{WithHalf(j, "pipeline_parallel", j.plan.pipeline_parallel)};
               },
               ""},
    // ---- the host ----
    NextAction{"CUDA graphs", Against::kHost, [](Job j) { return !j.host.cuda_graphs; },
               [](Job) { return Candidates{{"host.cuda_graphs=true"}}; }, "fixed shapes"},
    NextAction{"no wait of the host at the end", Against::kHost,
               [](Job j) { return j.host.synchronize; },
               [](Job) { return Candidates{{"host.synchronize=false"}}; }, ""},
    // ---- work per step ----
    NextAction{"recompute less", Against::kAnything, [](Job j) { return j.recompute.IsOn(); },
               [](Job j) {
                 Candidates candidates = {{"recompute=null"}};
                 if (j.recompute.IsFull()) {
                   candidates.push_back({"recompute=null", "recompute.granularity=selective",
                                         "recompute.policy=op"});
                 }
                 return candidates;
               },
               ""},
    NextAction{"larger micro-batches", Against::kAnything, HasEvenSteps,
               [](Job j) {
                 return Candidates{BatchChanges(j, 2 * j.batch.micro_batch_size,
                                                j.batch.gradient_accumulation_steps / 2)};
               },
               ""},
    NextAction{"larger micro-batches", Against::kAnything, [](Job j) { return !HasEvenSteps(j); },
               [](Job j) {
                 return Candidates{BatchChanges(j, 2 * j.batch.micro_batch_size,
                                                j.batch.gradient_accumulation_steps)};
               },
               kLargerBatch},
    NextAction{"more micro-steps", Against::kAnything, Communicates,
               [](Job j) {
                 return Candidates{BatchChanges(j, j.batch.micro_batch_size,
                                                2 * j.batch.gradient_accumulation_steps)};
               },
               kLargerBatch},
    // ---- hardware ----
    NextAction{"network twice as fast", kComm, [](Job j) { return Communicates(j) && j.nodes > 1; },
               [](Job j) {
                 return Candidates{
                     Twice("network.link.bandwidth", j.hardware.network.link.bandwidth)};
               },
               kBuysHardware},
    NextAction{"links in the node twice as fast", kComm,
               [](Job j) { return Communicates(j) && j.gpus_per_node > 1; },
               [](Job j) {
                 return Candidates{Twice("intra_node.bandwidth", j.hardware.intra_node.bandwidth)};
               },
               kBuysHardware},
};

}  // namespace

std::span<const NextAction> NextActions() { return kActions; }

}  // namespace stepsim
