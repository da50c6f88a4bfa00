#include "models/spec/sharding.h"

namespace stepsim {

namespace {

// Ranks of one copy of the parameters.
std::int64_t ShardsOfFsdp1(const JobSpec& job) {
  const Fsdp1Plan& plan = job.plan.fsdp1;
  if (plan.sharding_strategy == ShardingStrategy::kNoShard) return 1;
  if (!IsHybrid(plan.sharding_strategy)) return job.gpus();
  return plan.shard_size > 0 ? plan.shard_size : job.gpus_per_node;
}

}  // namespace

bool ShardsParameters(const JobSpec& job) {
  return job.plan.strategy == "fsdp1" || job.plan.strategy == "fsdp2";
}

Sharding ShardingOf(const JobSpec& job) {
  const DType storage = job.precision.parameters;
  Sharding sharding{1, job.gpus(), storage, storage, storage};
  if (!ShardsParameters(job)) return sharding;
  const bool is_fsdp1 = job.plan.strategy == "fsdp1";
  const Fsdp1Plan& fsdp1 = job.plan.fsdp1;
  const Fsdp2Plan& fsdp2 = job.plan.fsdp2;
  const std::int64_t size = fsdp2.shard_size > 0 ? fsdp2.shard_size : job.gpus();
  sharding.shards = is_fsdp1 ? ShardsOfFsdp1(job) : size;
  sharding.replicas = job.gpus() / sharding.shards;
  const auto param = is_fsdp1 ? fsdp1.param_dtype : fsdp2.param_dtype;
  const auto reduce = is_fsdp1 ? fsdp1.reduce_dtype : fsdp2.reduce_dtype;
  sharding.gather = param.value_or(ActivationType(job.precision.compute));
  sharding.reduce = reduce.value_or(sharding.gather);
  return sharding;
}

DType ActivationType(DType compute) {
  if (compute == DType::kTf32) return DType::kFp32;
  return compute == DType::kFp8 ? DType::kBf16 : compute;
}

}  // namespace stepsim
