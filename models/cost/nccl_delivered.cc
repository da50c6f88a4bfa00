// What the links deliver, in the shape in which NCCL's formulas want it. A formula evaluated with
// these rates in place of those of the graph search keeps NCCL's limits of protocols and channels,
// and takes its plateau from the machine.
#include <algorithm>
#include <limits>

#include "models/cost/nccl_system.h"

namespace stepsim {
namespace {

constexpr double kGB = 1e9;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Part of NVLink's nominal rate that NCCL's search gives to reductions in the switch, before their
// efficiency: 360 of 450 GB/s on Hopper, 720 of 900 on Blackwell.
constexpr double kSwitchPayload = 0.8;

double IntraDelivered(const HardwareSpec& hardware, const Placement& placement) {
  const double rate = IntraNode(hardware).bandwidth.value / kGB;
  if (placement.ranks_per_node <= 1) return kNoLimit;
  if (hardware.switched || hardware.intra_node.type != "nvlink") return rate;
  const double others = static_cast<double>(placement.ranks_per_node - 1);
  return rate * std::min(1.0, others / static_cast<double>(
                                           std::max<std::int64_t>(1, hardware.gpus_per_node - 1)));
}

// A GPU's link carries the whole buffer to the switch and, for the 1/heads of it that the GPU owns,
// the sum once more: the buffer moves at rate / (1 + 1/heads), which is a bus bandwidth of
// rate x 2 (n-1) / (n+1). It holds on H200 with 5 to 8 GPUs and on B200 with 6 to 8 within 1.5 %.
double NvlsIntra(const HardwareSpec& hardware, const NcclSystem& system) {
  const LinkSpec& link = hardware.intra_node;
  const double efficiency = NvlsEfficiency(system.generation);
  const double payload = std::min(kSwitchPayload, link.efficiency / efficiency);
  return link.bandwidth.value / kGB * payload / (system.nvls.channels + 1);
}

}  // namespace

NcclSystem WithDeliveredRates(NcclSystem system, const HardwareSpec& hardware,
                              const Placement& placement) {
  const double intra = IntraDelivered(hardware, placement);
  const bool has_network = placement.nodes > 1;
  const double uplink =
      has_network ? GroupUplink(hardware, placement).bandwidth.value / kGB : kNoLimit;
  system.intra_latency_us = ToSeconds(hardware.intra_node.added_latency) * 1e6;
  const double slowest = std::min(intra, uplink);
  const auto set = [](NcclGraph& graph, double intra_rate, double inter_rate) {
    graph.intra = intra_rate / graph.channels;
    graph.inter = inter_rate / graph.channels;
  };
  set(system.ring, slowest, slowest);
  // Between two nodes each byte crosses once per direction, and the table counts it twice.
  set(system.tree, std::min(intra, 2 * uplink), slowest);
  set(system.collnet, std::min(intra, 2 * uplink), slowest);
  if (system.nvls.channels > 0 && NvlsEfficiency(system.generation) > 0) {
    system.nvls.intra = NvlsIntra(hardware, system);
    system.nvls.inter = uplink * (system.ranks - 1) / system.ranks / system.nvls.channels;
  }
  return system;
}

}  // namespace stepsim
