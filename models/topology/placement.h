// Who is connected to whom? Where the ranks of a process group lie, and the slowest link of a ring
// through them.
#pragma once

#include <cstdint>
#include <span>

#include "models/spec/hardware.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

// How a group lies on the cluster. Ranks fill nodes in order: rank r is on node r / gpus_per_node.
struct Placement {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t ranks_per_node = 1;  // the largest number of them on one node
};
Placement PlaceGroup(std::span<const std::int32_t> ranks, std::int64_t gpus_per_node);

// What one rank can send on a link while its neighbours on the node do the same.
struct LinkShare {
  Bandwidth bandwidth;  // reached, per direction
  Duration latency{};   // per hop
};

// Between GPUs of one node: nominal bandwidth x efficiency.
LinkShare IntraNode(const HardwareSpec& hardware);

// Out of a node, when all its NICs serve one ring: the sum of the NICs, x efficiency. A ring leaves
// and enters each node once per channel, so every rank's data passes at this rate.
LinkShare NodeUplink(const HardwareSpec& hardware);

// The slowest link of a flat ring through the group.
LinkShare SlowestOfRing(const HardwareSpec& hardware, const Placement& placement);

}  // namespace stepsim
