#include "models/memory/memory.h"

#include <algorithm>

#include "models/spec/gpu_generation.h"
#include "models/spec/sharding.h"
#include "models/workload/optimizer_work.h"
#include "sim/base/quantity.h"

namespace stepsim {
namespace {

// DDP reduces flat buckets: a second copy of the gradients, unless they are views into it.
Bytes BucketBytes(const JobSpec& job, const Workload& workload) {
  const bool has_own_buckets = job.plan.strategy == "ddp" && !job.plan.ddp.gradient_as_bucket_view;
  return has_own_buckets ? workload.parameter_bytes() : Bytes{};
}

// A tensor may have a type of its own where compute and storage do not differ.
Bytes PartOf(const ParameterTensor& tensor, const Sharding& sharding, DType dtype,
             std::int64_t shards) {
  const bool is_plain = sharding.gather == sharding.storage;
  return SizeOf(is_plain ? tensor.dtype : dtype, CeilDiv(tensor.elements, shards));
}

// Before Blackwell fp8 products read both operands along their rows: the transpose is kept as well.
Bytes Fp8WeightBytes(const JobSpec& job, const ParameterTensor& tensor) {
  const bool is_new =
      GenerationOf(job.hardware.gpu.compute_capability) >= GpuGeneration::kBlackwell;
  return SizeOf(DType::kFp8, tensor.elements) * (is_new ? 1 : 2);
}

}  // namespace

Bytes ProductWorkspace(const JobSpec& job) {
  const bool is_new = GenerationOf(job.hardware.gpu.compute_capability) >= GpuGeneration::kHopper;
  return Bytes{is_new ? std::int64_t{32} << 20 : (std::int64_t{8} << 20) + (128 << 10)};
}

GradientLife GradientLifeOf(const JobSpec& job) {
  const std::string& strategy = job.plan.strategy;
  const std::int64_t last = job.batch.gradient_accumulation_steps - 1;
  GradientLife life;
  if (strategy == "ddp" && job.plan.ddp.gradient_as_bucket_view) {
    life.is_static = life.is_copied = true;
  } else if (strategy == "megatron") {
    life.is_static = life.is_left_to_strategy = true;
  } else if (strategy == "zero") {
    life.is_static = life.is_left_to_strategy = job.plan.zero.stage >= 2;
  } else if (strategy == "fsdp1") {
    life.is_left_to_strategy = true;
    life.first_microstep = job.plan.fsdp1.no_sync ? last : 0;
  } else if (strategy == "fsdp2") {
    life.is_left_to_strategy = true;
    life.first_microstep = job.plan.fsdp2.requires_gradient_sync ? 0 : last;
  }
  return life;
}

std::vector<std::pair<std::string, Bytes>> StaticMemory(const JobSpec& job,
                                                        const Workload& workload) {
  const Shardings shardings = ShardingsOf(job);
  const GradientLife life = GradientLifeOf(job);
  const auto states = std::int64_t{OptimizerStates(job.optimizer)};
  Bytes parameters, gradients, optimizer;
  for (const ParameterTensor& tensor : workload.parameters) {
    const Sharding& sharding = shardings.Of(tensor.is_expert);
    const auto part = [&](DType dtype, std::int64_t shards) {
      return PartOf(tensor, sharding, dtype, shards);
    };
    const bool is_shared = !sharding.has_master;
    if (tensor.is_fp8) {
      parameters += Fp8WeightBytes(job, tensor);
    } else {
      parameters += part(is_shared ? sharding.storage : sharding.gather, sharding.shards);
    }
    if (life.is_static) gradients += part(sharding.gradient, sharding.gradient_shards);
    optimizer +=
        part(sharding.storage, sharding.optimizer_shards) * (is_shared ? states : states + 1);
  }
  return {{"parameters", parameters},
          {"gradients", gradients},
          {"buckets", BucketBytes(job, workload)},
          {"optimizer_states", optimizer},
          {"buffers", workload.buffers}};
}

Bytes OptimizerWorkspace(const JobSpec& job, const Workload& workload) {
  const Shardings shardings = ShardingsOf(job);
  const Sharding& dense = shardings.dense;
  const bool is_adam = job.optimizer == OptimizerKind::kAdamW;
  Bytes all, largest;
  for (const ParameterTensor& tensor : workload.parameters) {
    const Sharding& sharding = shardings.Of(tensor.is_expert);
    const Bytes part = PartOf(tensor, sharding, sharding.storage, sharding.optimizer_shards);
    all += part;
    largest = std::max(largest, part);
  }
  Bytes workspace;
  if (job.optimizer == OptimizerKind::kNone) return workspace;
  // foreach: the square roots of all second moments; one by one: a root and a quotient at a time.
  if (is_adam && job.optimizer_impl == OptimizerImpl::kForeach) workspace += all;
  if (is_adam && job.optimizer_impl == OptimizerImpl::kForLoop) workspace += largest * 2;
  // Megatron casts 16-bit main gradients for the master's step; ZeRO's strategy tells of its own.
  const bool casts =
      job.plan.strategy == "megatron" && dense.has_master && dense.gradient != dense.storage;
  if (casts) workspace += all;
  return workspace;
}

}  // namespace stepsim
