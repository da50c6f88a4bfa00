// Who is connected to whom? Where the ranks of a process group lie, which NICs they reach, and the
// slowest link of a ring through them.
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
  // GPUs of a node that the job uses: the group's siblings on the node work at the same time and
  // share its NICs. 0: the group has the node to itself.
  std::int64_t job_gpus_per_node = 0;
  std::int64_t first_node = 0;
  std::int64_t last_node = 0;  // 0: nodes in a row from the first
  auto operator<=>(const Placement&) const = default;
};

// REQUIRES: `ranks` ascending, as a TaskGraph keeps its groups.
Placement PlaceGroup(std::span<const std::int32_t> ranks, std::int64_t gpus_per_node);

// What one rank can send on a link while its neighbours on the node do the same.
struct LinkShare {
  Bandwidth bandwidth;  // reached, per direction
  Duration latency{};   // per hop
};

// Between GPUs of one node: nominal bandwidth x efficiency.
LinkShare IntraNode(const HardwareSpec& hardware);

// NICs of one node that the group's ranks own, as a library on one rank sees it. Each GPU owns
// nics_per_node / gpus_per_node of them; GPUs without their own use their neighbours': at least 1.
double NicsInReach(const HardwareSpec& hardware, const Placement& placement);
// What is left of them when the group's siblings on the node communicate at the same time.
double NicsAtOnce(const HardwareSpec& hardware, const Placement& placement);
// Whether the group spans leaf switches, so that it meets the spine's oversubscription.
bool CrossesSpine(const NetworkSpec& network, const Placement& placement);

// What one NIC delivers: nominal x efficiency, for TCP sockets at most what its connections carry.
Bandwidth NicBandwidth(const LinkSpec& link);

// Out of one node, for all ranks of the group on it together: the NICs at once, each with its fair
// share of the spine. A ring leaves and enters each node once per channel, so every rank's data
// passes at this rate.
LinkShare GroupUplink(const HardwareSpec& hardware, const Placement& placement);

// The slowest link of a flat ring through the group.
LinkShare SlowestOfRing(const HardwareSpec& hardware, const Placement& placement);

}  // namespace stepsim
