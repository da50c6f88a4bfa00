#include "models/study/knobs.h"

#include <array>

#include "models/study/knob_values.h"

namespace stepsim {
namespace {

bool HasPipeline(const JobSpec& job) { return job.plan.pipeline_parallel > 1; }
bool IsTransformer(const JobSpec& job) { return TransformerOf(job) != nullptr; }
bool HasPeers(const JobSpec& job) { return job.gpus() > 1 && job.plan.communicates(); }
bool AsksNccl(const JobSpec& job) {
  return HasPeers(job) && job.collectives.model == CollectiveModel::kNccl;
}

constexpr std::array kKnobs = {
    Knob{"bucket", "bytes or elements of a bucket of gradients (DDP, ZeRO, Megatron-LM)",
         [](const JobSpec& j) {
           const bool has_buckets = Uses(j, "ddp") || Uses(j, "zero") ||
                                    (Uses(j, "megatron") && j.plan.megatron.overlap_grad_reduce);
           return HasPeers(j) && has_buckets;
         },
         BucketValues},
    Knob{"prefetch", "how far ahead parameters are gathered (FSDP, ZeRO-3)",
         [](const JobSpec& j) {
           return HasPeers(j) && (Uses(j, "fsdp1") || Uses(j, "fsdp2") ||
                                  (Uses(j, "zero") && j.plan.zero.stage == 3));
         },
         PrefetchValues},
    Knob{"reshard", "whether parameters are freed between forward and backward (FSDP)",
         [](const JobSpec& j) { return HasPeers(j) && (Uses(j, "fsdp1") || Uses(j, "fsdp2")); },
         ReshardValues},
    Knob{"overlap", "what runs beside compute at all (ZeRO, Megatron-LM)",
         [](const JobSpec& j) { return HasPeers(j) && (Uses(j, "zero") || Uses(j, "megatron")); },
         OverlapValues},
    Knob{"sync", "gradients are reduced in every micro-step, or once (DDP, FSDP)",
         [](const JobSpec& j) {
           return HasPeers(j) && j.batch.gradient_accumulation_steps > 1 &&
                  (Uses(j, "ddp") || Uses(j, "fsdp1") || Uses(j, "fsdp2"));
         },
         SyncValues},
    Knob{"micro_batch", "samples of a micro-step against the number of micro-steps",
         [](const JobSpec&) { return true; }, MicroBatchValues},
    Knob{"recompute", "what backward computes again instead of keeping it", IsTransformer,
         RecomputeValues},
    Knob{"sharding", "what each rank keeps of parameters, gradients and optimizer states",
         [](const JobSpec& j) { return HasPeers(j) && j.plan.strategy != "none"; }, ShardingValues},
    Knob{"split", "tensor, pipeline and data parallel ranks of the same GPUs",
         [](const JobSpec& j) {
           return IsTransformer(j) && HasPeers(j) &&
                  (Uses(j, "megatron") || Uses(j, "fsdp2") || Uses(j, "zero"));
         },
         SplitValues},
    Knob{"schedule", "the order of a pipeline's micro-batches", HasPipeline, ScheduleValues},
    Knob{"virtual_stages", "chunks of layers that a pipeline rank holds", HasPipeline,
         VirtualStageValues},
    Knob{"algorithm", "NCCL's algorithm (NCCL_ALGO)", AsksNccl, AlgorithmValues},
    Knob{"protocol", "NCCL's protocol (NCCL_PROTO)", AsksNccl, ProtocolValues},
    Knob{"ctas", "the most thread blocks, and with them SMs, of a collective (NCCL_MAX_CTAS)",
         AsksNccl, CtaValues},
};

}  // namespace

std::span<const Knob> Knobs() { return kKnobs; }

const Knob* FindKnob(std::string_view name) {
  for (const Knob& knob : kKnobs) {
    if (knob.name == name) return &knob;
  }
  return nullptr;
}

}  // namespace stepsim
