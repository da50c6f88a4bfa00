// Which parameter goes into which of Megatron-LM's buckets? As a pure function.
//
//   8 ranks, limit 100, distributed optimizer, tensors registered as a (90), b (60), c (50):
//   {c, b} begin at 0 and 64, end at 124, padded to 128; {a} is padded to 128
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec/zero_spec.h"
#include "models/workload/workload.h"

namespace stepsim {

struct MegatronBucket {
  std::vector<std::int32_t> parameters;
  bool is_expert = false;     // of the buffer of experts, behind those of all else
  std::int64_t elements = 0;  // with padding
  std::int64_t fp8 = 0;       // ... of which in one byte each: those of fp8 parameters
};

struct MegatronBuckets {
  std::vector<MegatronBucket> buckets;    // reverse registration order
  std::vector<std::size_t> of_parameter;  // parameter -> bucket
};

// fp8 parameters have buckets of their own; the others go with the last of them, as one group.
//
// `ranks` is the data parallel size; buckets are cut over `shards` of them, those of experts
// (ParameterTensor::is_expert) over `expert_shards`.
MegatronBuckets PlanMegatronBuckets(const MegatronPlan& plan, const Workload& workload,
                                    std::int64_t ranks, std::int64_t shards,
                                    std::int64_t expert_shards = 1);

}  // namespace stepsim
