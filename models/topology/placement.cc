#include "models/topology/placement.h"

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {

Placement PlaceGroup(std::span<const std::int32_t> ranks, std::int64_t gpus_per_node) {
  SIM_CHECK(!ranks.empty() && gpus_per_node > 0, "a group has ranks, a node has GPUs");
  Placement placement{static_cast<std::int64_t>(ranks.size()), 0, 0};
  std::int64_t node = -1, on_node = 0;
  for (const std::int32_t rank : ranks) {  // ascending
    if (rank / gpus_per_node != node) {
      node = rank / gpus_per_node;
      ++placement.nodes;
      on_node = 0;
    }
    placement.ranks_per_node = std::max(placement.ranks_per_node, ++on_node);
  }
  return placement;
}

LinkShare IntraNode(const HardwareSpec& hardware) {
  const LinkSpec& link = hardware.intra_node;
  return {{link.bandwidth.value * link.efficiency}, link.latency};
}

LinkShare NodeUplink(const HardwareSpec& hardware) {
  const LinkSpec& link = hardware.network.link;
  const auto nics = static_cast<double>(hardware.network.nics_per_node);
  return {{link.bandwidth.value * link.efficiency * nics}, link.latency};
}

LinkShare SlowestOfRing(const HardwareSpec& hardware, const Placement& placement) {
  const LinkShare intra = IntraNode(hardware);
  if (placement.nodes == 1) return intra;
  const LinkShare uplink = NodeUplink(hardware);
  if (placement.ranks_per_node == 1) return uplink;
  // The network's latency counts even where NVLink is the narrower of the two.
  return {std::min(intra.bandwidth, uplink.bandwidth), std::max(intra.latency, uplink.latency)};
}

}  // namespace stepsim
