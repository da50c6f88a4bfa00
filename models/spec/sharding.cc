#include "models/spec/sharding.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/base/units.h"

namespace stepsim {

namespace {

// Ranks of one copy of the parameters.
std::int64_t ShardsOfFsdp1(const JobSpec& job) {
  const Fsdp1Plan& plan = job.plan.fsdp1;
  if (plan.sharding_strategy == ShardingStrategy::kNoShard) return 1;
  if (!IsHybrid(plan.sharding_strategy)) return job.gradient_ranks();
  return plan.shard_size > 0 ? plan.shard_size : job.gpus_per_node;
}

Sharding Fsdp1Sharding(const JobSpec& job, Sharding sharding) {
  const Fsdp1Plan& plan = job.plan.fsdp1;
  sharding.shards = ShardsOfFsdp1(job);
  sharding.gather = plan.param_dtype.value_or(ActivationType(job.precision.compute));
  sharding.reduce = plan.reduce_dtype.value_or(sharding.gather);
  return sharding;
}

Sharding Fsdp2Sharding(const JobSpec& job, Sharding sharding) {
  const Fsdp2Plan& plan = job.plan.fsdp2;
  sharding.shards = plan.shard_size > 0 ? plan.shard_size : job.gradient_ranks();
  sharding.gather = plan.param_dtype.value_or(ActivationType(job.precision.compute));
  sharding.reduce = plan.reduce_dtype.value_or(sharding.gather);
  return sharding;
}

// 16-bit parameters and gradients, fp32 states and a copy of the parameters in the optimizer.
Sharding MasterSharding(const JobSpec& job, Sharding sharding) {
  sharding.storage = DType::kFp32;
  sharding.gather = ActivationType(job.precision.compute);
  sharding.reduce = sharding.gradient = sharding.gather;
  sharding.has_master = sharding.gather != sharding.storage;
  return sharding;
}

Sharding ZeroSharding(const JobSpec& job, Sharding sharding) {
  const ZeroPlan& plan = job.plan.zero;
  sharding = MasterSharding(job, sharding);
  sharding.optimizer_shards = job.gradient_ranks();
  sharding.gradient_shards = plan.stage >= 2 ? job.gradient_ranks() : 1;
  sharding.shards = plan.stage >= 3 ? job.gradient_ranks() : 1;
  sharding.reduce = plan.communication_data_type.value_or(sharding.reduce);
  return sharding;
}

Sharding MegatronSharding(const JobSpec& job, Sharding sharding) {
  const MegatronPlan& plan = job.plan.megatron;
  sharding = MasterSharding(job, sharding);
  if (plan.grad_reduce_in_fp32.value_or(sharding.gather == DType::kBf16)) {
    sharding.reduce = sharding.gradient = DType::kFp32;
  }
  sharding.optimizer_shards = plan.use_distributed_optimizer
                                  ? job.gradient_ranks() / plan.num_distributed_optimizer_instances
                                  : 1;
  return sharding;
}

}  // namespace

Sharding ShardingOf(const JobSpec& job) {
  const DType storage = job.precision.parameters;
  Sharding sharding{.storage = storage, .gather = storage, .reduce = storage, .gradient = storage};
  const std::string& strategy = job.plan.strategy;
  const bool is_fsdp = strategy == "fsdp1" || strategy == "fsdp2";
  if (strategy == "fsdp1") sharding = Fsdp1Sharding(job, sharding);
  if (strategy == "fsdp2") sharding = Fsdp2Sharding(job, sharding);
  if (strategy == "zero") sharding = ZeroSharding(job, sharding);
  if (strategy == "megatron") sharding = MegatronSharding(job, sharding);
  if (is_fsdp) sharding.gradient_shards = sharding.optimizer_shards = sharding.shards;
  sharding.replicas = job.gradient_ranks() / sharding.shards;
  return sharding;
}

Shardings ShardingsOf(const JobSpec& job) {
  Shardings shardings{ShardingOf(job), ShardingOf(job)};
  const ParallelPlan& plan = job.plan;
  if (!plan.has_expert_mesh()) return shardings;
  Sharding& experts = shardings.experts;
  for (std::int64_t* ranks :
       {&experts.shards, &experts.gradient_shards, &experts.optimizer_shards}) {
    if (*ranks == 1) continue;
    const std::int64_t dealt = plan.expert_parallel * plan.expert_tensor_parallel();
    *ranks = std::max<std::int64_t>(*ranks * plan.tensor_parallel / dealt, 1);
  }
  experts.replicas = job.expert_gradient_ranks() / experts.shards;
  return shardings;
}

Resharding ReshardingOf(const JobSpec& job) {
  const std::string& text = job.plan.fsdp2.reshard_after_forward;
  if (text == "auto") return {};
  if (text == "true") return {.groups = true, .root = true};
  const std::int64_t size = ParseInteger(text).value_or(1);
  if (size == 1) return {.groups = false, .root = false};
  const bool is_whole = size == ShardingOf(job).shards;
  return {.groups = true, .root = true, .size = is_whole ? 0 : size};
}

bool KeepsFp8Weights(const JobSpec& job) {
  return job.plan.strategy == "megatron" && job.plan.megatron.fp8_param_gather;
}

bool NamesLayers(const JobSpec& job) {
  return job.plan.fsdp2.layer_prefetch.value_or(job.plan.expert_parallel > 1);
}

double PreDivideFactor(double factor) {
  double before = 1;
  while (std::fmod(factor, before) == 0 && factor / before > before) before *= 2;
  return before;
}

DType ActivationType(DType compute) {
  if (compute == DType::kTf32) return DType::kFp32;
  return compute == DType::kFp8 ? DType::kBf16 : compute;
}

}  // namespace stepsim
