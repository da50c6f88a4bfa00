#include "models/topology/placement.h"

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {

Placement PlaceGroup(std::span<const std::int32_t> ranks, std::int64_t gpus_per_node) {
  SIM_CHECK(!ranks.empty() && gpus_per_node > 0, "a group has ranks, a node has GPUs");
  Placement placement{static_cast<std::int64_t>(ranks.size()), 0, 0, gpus_per_node, 0, 0};
  std::size_t i = 0;
  while (i < ranks.size()) {  // once per node, not per rank
    const std::int64_t node = ranks[i] / gpus_per_node;
    const std::size_t most = std::min(ranks.size(), i + static_cast<std::size_t>(gpus_per_node));
    const std::span<const std::int32_t> here = ranks.subspan(i, most - i);
    const auto next = std::lower_bound(here.begin(), here.end(), (node + 1) * gpus_per_node);
    const std::size_t end = i + static_cast<std::size_t>(next - here.begin());
    if (placement.nodes++ == 0) placement.first_node = node;
    placement.last_node = node;
    placement.ranks_per_node =
        std::max(placement.ranks_per_node, static_cast<std::int64_t>(end - i));
    i = end;
  }
  return placement;
}

LinkShare IntraNode(const HardwareSpec& hardware) {
  const LinkSpec& link = hardware.intra_node;
  return {{link.bandwidth.value * link.efficiency}, link.latency};
}

double NicsInReach(const HardwareSpec& hardware, const Placement& placement) {
  const auto nics = static_cast<double>(hardware.network.nics_per_node);
  const auto ranks = static_cast<double>(placement.ranks_per_node);
  const double owned = nics * ranks / static_cast<double>(hardware.gpus_per_node);
  return std::clamp(owned, 1.0, nics);
}

double NicsAtOnce(const HardwareSpec& hardware, const Placement& placement) {
  const std::int64_t used = std::max(placement.job_gpus_per_node, placement.ranks_per_node);
  const double share = static_cast<double>(hardware.network.nics_per_node) *
                       static_cast<double>(placement.ranks_per_node) / static_cast<double>(used);
  return std::min(NicsInReach(hardware, placement), share);
}

bool CrossesSpine(const NetworkSpec& network, const Placement& placement) {
  if (placement.nodes == 1) return false;
  if (network.nodes_per_leaf == 0) return true;
  const std::int64_t last =
      std::max(placement.last_node, placement.first_node + placement.nodes - 1);
  return placement.first_node / network.nodes_per_leaf != last / network.nodes_per_leaf;
}

Bandwidth NicBandwidth(const LinkSpec& link) {
  const double wire = link.bandwidth.value * link.efficiency;
  if (link.stream_bandwidth.value <= 0) return {wire};
  return {std::min(wire, link.stream_bandwidth.value * static_cast<double>(link.streams))};
}

LinkShare GroupUplink(const HardwareSpec& hardware, const Placement& placement) {
  const NetworkSpec& network = hardware.network;
  const double spine = CrossesSpine(network, placement) ? 1 / network.oversubscription : 1;
  return {{NicBandwidth(network.link).value * NicsAtOnce(hardware, placement) * spine},
          network.link.latency};
}

LinkShare SlowestOfRing(const HardwareSpec& hardware, const Placement& placement) {
  const LinkShare intra = IntraNode(hardware);
  if (placement.nodes == 1) return intra;
  const LinkShare uplink = GroupUplink(hardware, placement);
  if (placement.ranks_per_node == 1) return uplink;
  // The network's latency counts even where NVLink is the narrower of the two.
  return {std::min(intra.bandwidth, uplink.bandwidth), std::max(intra.latency, uplink.latency)};
}

}  // namespace stepsim
