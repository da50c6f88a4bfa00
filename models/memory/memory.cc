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

}  // namespace

std::vector<std::pair<std::string, Bytes>> StaticMemory(const JobSpec& job,
                                                        const Workload& workload) {
  const Sharding sharding = ShardingOf(job);
  const auto states = std::int64_t{OptimizerStates(job.optimizer)};
  Bytes parameters, gradients, optimizer;
  for (const ParameterTensor& tensor : workload.parameters) {
    // A tensor may have a type of its own where compute and storage do not differ.
    const auto part = [&](DType dtype, std::int64_t shards) {
      const bool is_plain = sharding.gather == sharding.storage;
      return SizeOf(is_plain ? tensor.dtype : dtype, (tensor.elements + shards - 1) / shards);
    };
    const bool is_shared = !sharding.has_master;
    parameters += part(is_shared ? sharding.storage : sharding.gather, sharding.shards);
    gradients += part(sharding.gradient, sharding.gradient_shards);
    optimizer +=
        part(sharding.storage, sharding.optimizer_shards) * (is_shared ? states : states + 1);
  }
  return {{"parameters", parameters},
          {"gradients", gradients},
          {"buckets", BucketBytes(job, gradients)},
          {"optimizer_states", optimizer},
          {"buffers", workload.buffers}};
}

}  // namespace stepsim
