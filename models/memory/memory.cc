#include "models/memory/memory.h"

#include "models/spec/sharding.h"
#include "models/workload/optimizer_work.h"

namespace stepsim {
namespace {

// DDP reduces flat buckets: a second copy of the gradients, unless they are views into it.
Bytes BucketBytes(const JobSpec& job, Bytes gradients) {
  const bool has_own_buckets = job.plan.strategy == "ddp" && !job.plan.ddp.gradient_as_bucket_view;
  return has_own_buckets ? gradients : Bytes{0};
}

// Shards in the type of storage; what is gathered, and gradients before they are reduced, come and
// go with the strategy's tasks.
std::vector<std::pair<std::string, Bytes>> ShardedMemory(const JobSpec& job,
                                                         const Workload& workload) {
  const Sharding sharding = ShardingOf(job);
  Bytes shard;
  for (const ParameterTensor& tensor : workload.parameters) {
    shard += sharding.ShardOf(tensor.elements, sharding.storage);
  }
  return {{"parameters", shard},
          {"gradients", shard},
          {"buckets", Bytes{0}},
          {"optimizer_states", shard * std::int64_t{OptimizerStates(job.optimizer)}},
          {"buffers", workload.buffers}};
}

}  // namespace

std::vector<std::pair<std::string, Bytes>> StaticMemory(const JobSpec& job,
                                                        const Workload& workload) {
  if (ShardsParameters(job)) return ShardedMemory(job, workload);
  const Bytes parameters = workload.parameter_bytes();
  const Bytes gradients = parameters;  // of the parameters' type
  return {{"parameters", parameters},
          {"gradients", gradients},
          {"buckets", BucketBytes(job, gradients)},
          {"optimizer_states", parameters * std::int64_t{OptimizerStates(job.optimizer)}},
          {"buffers", workload.buffers}};
}

}  // namespace stepsim
