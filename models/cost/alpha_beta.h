// The textbook model: latency per step plus bytes over the bandwidth of the slowest link. For
// arithmetic by hand and as the baseline that NCCL's model is compared with.
#pragma once

#include <string_view>

#include "models/cost/collective_cost.h"

namespace stepsim {

// A flat ring; a transfer over its slowest link; an all_to_all by pairs.
double RingSeconds(const CollectiveRequest& request, const HardwareSpec& hardware);
double RingSeconds(const CollectiveRequest& request, const LinkShare& link);
// reduce_scatter in the node, all_reduce across nodes, all_gather in the node. REQUIRES:
// all_reduce.
double HierarchicalAllReduceSeconds(const CollectiveRequest& request, const HardwareSpec& hardware);

}  // namespace stepsim
