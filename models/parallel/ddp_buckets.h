// Which gradient goes into which bucket? DDP's assignment rule, as a pure function.
//
//   sizes 0.5 0.4 0.2 10 10 10 30 1 MiB, limits 1 then 25 MiB  ->  [0 1 2] [3 4 5] [6] [7]
//
// A tensor is added, then the limit is tested: buckets overshoot and tensors are never split.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/base/quantity.h"

namespace stepsim {

struct Bucket {
  std::vector<std::int32_t> parameters;  // indices into Workload::parameters, as added
  DType dtype = DType::kFp32;
  Bytes bytes;
};

// Walks `order`; one open bucket per dtype; each dtype moves from the first limit to the next after
// each closed bucket and stays on the last one. Buckets left open follow, in order of first use.
// With `sort_by_smallest_index` the result is sorted by the smallest parameter index (the
// assignment at construction), else the closing order is kept (the rebuild).
// REQUIRES: limits not empty.
std::vector<Bucket> AssignBuckets(std::span<const ParameterTensor> parameters,
                                  std::span<const std::int32_t> order,
                                  std::span<const Bytes> limits, bool sort_by_smallest_index);

// The limits that the plan's caps amount to, in launch order.
std::vector<Bytes> BucketLimits(const DdpPlan& plan);

// The buckets of one iteration in launch order: rebuilt from the arrival order of the gradients, or
// as constructed (first iteration; find_unused_parameters without static_graph).
std::vector<Bucket> PlanBuckets(const DdpPlan& plan, const Workload& workload,
                                bool of_experts = false);

}  // namespace stepsim
