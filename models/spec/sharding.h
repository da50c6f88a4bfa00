// How is a replica's state cut up? Ranks, element types and sizes of sharded data parallelism.
#pragma once

#include <cstdint>

#include "models/spec/job.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"

namespace stepsim {

struct Sharding {
  std::int64_t shards = 1;            // ranks that hold one copy of the parameters together
  std::int64_t replicas = 1;          // copies
  std::int64_t gradient_shards = 1;   // ranks that keep one set of gradients together
  std::int64_t optimizer_shards = 1;  // ranks that keep one set of optimizer states together
  DType storage = DType::kFp32;       // of what the optimizer works on
  DType gather = DType::kFp32;        // of parameters on the wire and in compute
  DType reduce = DType::kFp32;        // of gradients on the wire
  DType gradient = DType::kFp32;      // of gradients as they are kept
  bool has_master = false;  // the optimizer keeps parameters of its own beside those of compute

  // What one rank holds of `elements`, the padding included.
  Bytes ShardOf(std::int64_t elements, DType dtype) const {
    return SizeOf(dtype, (elements + shards - 1) / shards);
  }
};

// One shard of one copy, all types as stored, for a strategy that does not shard.
Sharding ShardingOf(const JobSpec& job);

// ... and that of experts that are dealt out over ranks of their own (ParameterTensor::is_expert):
// of the ranks that cut up everything else, those with the same experts.
struct Shardings {
  Sharding dense, experts;
  const Sharding& Of(bool is_expert) const { return is_expert ? experts : dense; }
};
Shardings ShardingsOf(const JobSpec& job);

// FSDP2's reshard_after_forward: who frees parameters between forward and backward?
struct Resharding {
  bool groups = true;
  bool root = false;
  std::int64_t size =
      0;  // ranks over which a copy stays sharded, gathered from in backward; 0: none
};
Resharding ReshardingOf(const JobSpec& job);

// Megatron's fp8_param_gather: are the weights of the layers' products fp8 themselves?
bool KeepsFp8Weights(const JobSpec& job);

// Does every layer of FSDP2 name the next one for prefetch?
bool NamesLayers(const JobSpec& job);

// What fp16 gradients are divided by before a sum over so many ranks: a power of two near the
// square root; the rest of `factor` follows behind. PyTorch's rule, for FSDP1 whatever the type.
double PreDivideFactor(double factor);

// What lies in memory between two matrix products: tf32 only exists inside the units, and fp8 only
// in the operands of linears.
DType ActivationType(DType compute);

}  // namespace stepsim
