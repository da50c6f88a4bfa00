#include "models/cost/nccl_system.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr double kGB = 1e9;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Speeds that the search tries for one channel, GB/s, fastest first (src/graph/search.cc).
constexpr std::array<double, 13> kIntra = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr std::array<double, 19> kInter = {48, 30, 28, 24, 20, 18,  15,  12,   10,  9,
                                           7,  6,  5,  4,  3,  2.4, 1.2, 0.24, 0.12};
constexpr std::array<double, 11> kIntraHopper = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr std::array<double, 17> kInterHopper = {48, 45, 42, 40, 30,  24,  22,   20,  17.5,
                                                 15, 12, 6,  3,  2.4, 1.2, 0.24, 0.12};
constexpr std::array<double, 12> kIntraBlackwell = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr std::array<double, 20> kInterBlackwell = {
    96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};

using Speeds = std::span<const double>;
Speeds IntraSpeeds(GpuGeneration generation) {
  if (generation == GpuGeneration::kBlackwell) return kIntraBlackwell;
  if (generation == GpuGeneration::kHopper) return kIntraHopper;
  return kIntra;
}
Speeds InterSpeeds(GpuGeneration generation) {
  if (generation == GpuGeneration::kBlackwell) return kInterBlackwell;
  if (generation == GpuGeneration::kHopper) return kInterHopper;
  return kInter;
}

// A release that does not know Blackwell treats it as Hopper.
GpuGeneration KnownGeneration(double compute_capability, const NcclTable& table) {
  const GpuGeneration generation = GenerationOf(compute_capability);
  return table.minor < 25 ? std::min(generation, GpuGeneration::kHopper) : generation;
}

// Payload that NCCL expects of an NVLink over its nominal rate: 20 of 25 GB/s a link up to Ampere,
// 12 of 14.06 on its small chips, 20.6 of 25 on Hopper, 40.1 of 50 on Blackwell.
double NvlinkPayload(double compute_capability, const NcclTable& table) {
  if (compute_capability >= 10) return 40.1 / 50;
  if (compute_capability >= 9) return table.minor < 19 ? 20.0 / 25 : 20.6 / 25;
  if (compute_capability > 8.05) return 12 / 14.0625;
  return 20.0 / 25;
}

// PCIe: 12, 24, 48 GB/s for 16 lanes of generation 3, 4, 5 (nominal 16, 32, 64).
constexpr double kPciPayload = 0.75;

// Between sockets, where the group does not fit on one.
double SocketLink(const HardwareSpec& hardware) {
  if (hardware.cpu == "amd") return 16;
  if (hardware.cpu == "power") return 32;
  if (hardware.cpu == "arm") return 6;
  const bool is_gen5 = hardware.intra_node.bandwidth.value > 40 * kGB;
  return is_gen5 ? 22 : 10;  // Sapphire Rapids; Skylake and Ice Lake
}

// What one GPU can send inside the node as NCCL counts it, GB/s.
double IntraTotal(const HardwareSpec& hardware, const NcclSystem& system, const NcclTable& table) {
  const double nominal = hardware.intra_node.bandwidth.value / kGB;
  const auto node_gpus = static_cast<double>(hardware.gpus_per_node);
  if (system.local_ranks <= 1) return kNoLimit;
  if (system.intra_link == NcclLink::kPci) {
    const bool fits_a_socket = system.local_ranks <= std::max(2.0, node_gpus / 2);
    const double lanes = nominal * kPciPayload;
    return fits_a_socket ? lanes : std::min(lanes, SocketLink(hardware));
  }
  const double links = nominal * NvlinkPayload(system.compute_capability, table);
  if (system.is_switched) return links;
  // A mesh: only the links to the group's own GPUs help; taken as spread evenly over the node.
  return links * std::min(1.0, (system.local_ranks - 1) / std::max(1.0, node_gpus - 1));
}

struct Nics {
  double count = 0;  // 0: the group stays on one node
  double rate = 0;   // GB/s of one
};

// Several NICs of one GPU count as one: that is how plug-ins present them.
Nics NicsOf(const HardwareSpec& hardware, const Placement& placement) {
  if (placement.nodes == 1) return {};
  const double nics = NicsInReach(hardware, placement);
  const double count = std::min(std::floor(nics), static_cast<double>(placement.ranks_per_node));
  return {count, hardware.network.link.bandwidth.value / kGB * nics / count};
}

// Channels of this speed that fit through the node and its NICs at once.
double ChannelsAt(double speed, double intra_total, const Nics& nics, double most) {
  double channels = std::min(most, std::floor(intra_total / speed));
  if (nics.count > 0) channels = std::min(channels, nics.count * std::floor(nics.rate / speed));
  return channels;
}

// The largest channels x speed, the faster channel first; a speed below half of one that works is
// not tried.
NcclGraph SearchRing(Speeds speeds, double intra_total, const Nics& nics, double most) {
  NcclGraph best;
  for (const double speed : speeds) {
    if (best.channels > 0 && speed / best.intra <= 0.49) break;
    const double channels = ChannelsAt(speed, intra_total, nics, most);
    if (channels * speed > best.channels * best.intra) best = {channels, speed, speed};
  }
  if (best.channels == 0) best = {1, 0.1, 0.1};  // NCCL's own way out
  return best;
}

// Two slow channels keep more of the GPU busy than a fast one.
void Duplicate(NcclGraph& graph, double compute_capability, double most) {
  if (graph.intra < 25) return;
  if (compute_capability > 8.05 && graph.intra < 50 && graph.channels > 4) return;
  const double channels = std::min(graph.channels * 2, most);
  const double factor = std::ceil(channels / graph.channels);
  graph = {channels, graph.intra / factor, graph.inter / factor};
}

// Trees may run faster inside the node than between nodes, up to twice.
NcclGraph RaiseIntra(NcclGraph graph, Speeds speeds, double intra_total) {
  const double inter = graph.inter;
  for (auto speed = speeds.rbegin(); speed != speeds.rend(); ++speed) {
    if (*speed <= graph.intra) continue;
    if (graph.intra >= 2 * inter || graph.channels * *speed > intra_total) break;
    graph.intra = *speed;
  }
  return graph;
}

// One channel per GPU that reduces a part of the buffer in the switch ("head").
NcclGraph SearchNvls(const NcclSystem& system, double intra_total, const Nics& nics) {
  constexpr double kMostHeads = 32;
  NcclGraph graph;
  graph.channels = std::min(kMostHeads, nics.count > 0 ? nics.count : system.local_ranks);
  const Speeds intra = IntraSpeeds(system.generation);
  for (const double speed : intra) {
    if (graph.channels * speed > intra_total) continue;
    graph.intra = speed;
    break;
  }
  if (nics.count == 0) {
    graph.inter = graph.intra;
    for (auto speed = intra.rbegin(); speed != intra.rend(); ++speed) {
      if (*speed > graph.inter && graph.inter < 2 * graph.intra) graph.inter = *speed;
    }
    return graph;
  }
  for (const double speed : InterSpeeds(system.generation)) {
    if (speed <= nics.rate) return graph.inter = speed, graph;
  }
  graph.inter = 0.1;
  return graph;
}

std::int64_t RingCtas(const NcclSystem& system, const NcclTable& table) {
  const double most = table.minor < 25 ? 32 : 64;
  double ctas = std::min(most, 2 * system.ring.channels);
  if (system.compute_capability >= 9 && system.nodes > 1 && system.ring.intra > 45 && ctas < 16) {
    ctas *= 2;
  }
  // Releases from 2.28 on keep half of Blackwell's SMs free of communication unless asked.
  if (system.generation == GpuGeneration::kBlackwell && table.minor >= 28)
    ctas = std::min(ctas, 16.0);
  return static_cast<std::int64_t>(ctas);
}

bool IsSocket(std::string_view type) {
  return type == "ethernet" || type == "tcp" || type == "socket";
}

void DescribePaths(NcclSystem& system, const HardwareSpec& hardware, const Nics& nics) {
  const bool has_network = system.nodes > 1;
  const std::string_view network = hardware.network.link.type;
  system.is_simple_only = has_network && network == "efa" && system.compute_capability < 9;
  const bool has_nvlink = system.intra_link == NcclLink::kNvlink || system.local_ranks == 1;
  system.has_ll128_path =
      has_nvlink && system.compute_capability >= 7 && !(has_network && IsSocket(network));
  system.same_channels = has_network ? nics.count <= 1 : system.is_switched;
  // With one GPU per node there is nothing to balance; NCCL's newer search gives up the balanced
  // tree where GPUs share a NIC (NVIDIA/nccl #1453: three nodes of H100 with four NICs each).
  system.has_plain_tree =
      has_network && (system.local_ranks == 1 ||
                      (system.compute_capability >= 9 && nics.count < system.local_ranks));
  system.inter_latency_us = ToSeconds(hardware.network.link.added_latency) * 1e6;
}

}  // namespace

NcclSystem SearchSystem(const HardwareSpec& hardware, const Placement& placement,
                        const NcclTable& table) {
  SIM_CHECK(placement.ranks > 1, "one rank has nobody to talk to");
  NcclSystem system;
  system.compute_capability = hardware.gpu.compute_capability;
  system.generation = KnownGeneration(system.compute_capability, table);
  system.cpu = hardware.cpu;
  system.ranks = static_cast<double>(placement.ranks);
  system.nodes = static_cast<double>(placement.nodes);
  system.local_ranks = static_cast<double>(placement.ranks_per_node);
  const bool is_nvlink = hardware.intra_node.type == "nvlink";
  system.intra_link = is_nvlink ? NcclLink::kNvlink : NcclLink::kPci;
  system.is_switched = hardware.switched && is_nvlink;

  const double most = table.minor < 25 ? 16 : 32;
  const double intra_total = IntraTotal(hardware, system, table);
  const Nics nics = NicsOf(hardware, placement);
  const bool has_network = nics.count > 0;
  const Speeds speeds =
      has_network ? InterSpeeds(system.generation) : IntraSpeeds(system.generation);
  system.ring = SearchRing(speeds, intra_total, nics, most);
  Duplicate(system.ring, system.compute_capability, most);
  system.tree = has_network ? RaiseIntra(system.ring, speeds, intra_total) : system.ring;
  system.collnet = system.tree;
  if (system.is_switched && system.local_ranks > 1 && system.generation >= GpuGeneration::kHopper) {
    system.nvls = SearchNvls(system, intra_total, nics);
    system.nvls_ctas = system.generation == GpuGeneration::kBlackwell ? 24 : 16;
  }
  system.ring_ctas = RingCtas(system, table);
  DescribePaths(system, hardware, nics);
  return system;
}

}  // namespace stepsim
