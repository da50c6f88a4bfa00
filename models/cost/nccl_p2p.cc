// all_to_all and send_recv: grouped sends and receives, every pair of ranks over its own channels.
//
// A rank's NVLink and its NICs work at the same time; the slower of the two is the time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/cost/nccl_candidate.h"

namespace stepsim {
namespace {

constexpr double kGB = 1e9;

double PowerOfTwoUp(double value) { return std::exp2(std::ceil(std::log2(std::max(1.0, value)))); }

struct Traffic {
  double peers = 1;       // of one rank
  double peer_share = 1;  // of the call's bytes, to one peer
  double intra = 0;       // of the call's bytes, from one rank to its own node
  double inter = 0;       // and to other nodes
};

Traffic TrafficOf(CollectiveOp op, const NcclSystem& system) {
  if (op == CollectiveOp::kSendRecv) {
    return {1, 1, system.nodes > 1 ? 0.0 : 1.0, system.nodes > 1 ? 1.0 : 0.0};
  }
  const double n = system.ranks;
  return {n - 1, 1 / n, (system.local_ranks - 1) / n, (n - system.local_ranks) / n};
}

// Channels that connect one pair: enough to fill its link.
double ChannelsPerPeer(const NcclSystem& system, const HardwareSpec& hardware) {
  constexpr double kLink = 25 * kGB;  // one NVLink of the generation that set the rule
  constexpr double kNetChannel = 14;  // GB/s
  double channels = std::numeric_limits<double>::infinity();
  if (system.local_ranks > 1) {
    const double links = std::floor(hardware.intra_node.bandwidth.value / kLink);
    channels = system.intra_link == NcclLink::kNvlink ? 2 * std::max(1.0, links) : 2;
  }
  if (system.nodes > 1) {
    const double rate = hardware.network.link.bandwidth.value / kGB;
    const double nics = static_cast<double>(hardware.network.nics_per_node) /
                        static_cast<double>(hardware.gpus_per_node);
    channels = std::min(channels, std::max({2.0, std::floor(nics),
                                            std::ceil(rate * std::max(1.0, nics) / kNetChannel)}));
  }
  return PowerOfTwoUp(channels);
}

double ChunkBytes(const NcclSystem& system) {
  constexpr double kKiB = 1024;
  const bool is_nvlink = system.nodes <= 1 && system.intra_link == NcclLink::kNvlink;
  if (is_nvlink) return 512 * kKiB;
  return (system.cpu == "arm" ? 256 : 128) * kKiB;  // Grace copies larger pieces
}

double Latency(const NcclCall& call, double rounds) {
  const NcclSystem& system = call.system;
  const double hop = system.nodes > 1 ? InterHop(call, NcclAlgorithm::kRing)
                                      : HopLatency(call, system.intra_link, NcclAlgorithm::kRing);
  return BaseLatency(call, NcclAlgorithm::kRing) + rounds * hop;
}

}  // namespace

NcclCandidate P2pCandidate(const NcclGroup& group, const HardwareSpec& hardware,
                           const CollectiveRequest& request, const CollectiveModelSpec& spec) {
  constexpr double kLlBytes = 16 * 1024;  // on one channel
  const NcclSystem& system = group.seen;
  const Traffic traffic = TrafficOf(request.op, system);
  double most = PowerOfTwoUp(static_cast<double>(std::max(system.ring_ctas, spec.min_ctas)));
  if (spec.max_ctas > 0) most = std::min(most, static_cast<double>(spec.max_ctas));
  const double to_peer = ToDouble(request.bytes) * traffic.peer_share;
  const double per_peer = std::clamp(std::ceil(to_peer / ChunkBytes(system)), 1.0,
                                     std::min(most, ChannelsPerPeer(system, hardware)));

  NcclCandidate candidate;
  candidate.algorithm = "p2p";
  candidate.protocol = to_peer / per_peer < kLlBytes ? NcclProtocol::kLl : NcclProtocol::kSimple;
  const double channels = std::min(most, traffic.peers * per_peer);
  candidate.channels = static_cast<std::int64_t>(channels);
  candidate.sms = channels;

  const NcclCall call = group.Delivered(request.op, candidate.protocol);
  const double wire = WireFactor(candidate.protocol);
  const double intra = IntraNode(hardware).bandwidth.value / kGB;
  double ns_per_byte = traffic.intra * wire / intra;
  candidate.node_factor = traffic.inter * system.local_ranks * wire;
  if (system.nodes > 1) {
    const double uplink = GroupUplink(hardware, group.placement).bandwidth.value / kGB;
    ns_per_byte = std::max(ns_per_byte, candidate.node_factor / uplink);
  }
  const double rounds = std::ceil(traffic.peers * per_peer / channels);
  candidate.delivered = {Latency(call, rounds), 1 / ns_per_byte};
  candidate.nccl_us = Microseconds(candidate.delivered, ToDouble(request.bytes));
  candidate.link_factor = traffic.intra * wire;
  candidate.hbm_factor =
      (traffic.intra + traffic.inter) * HbmPerBusByte(candidate.protocol, spec.registered_buffers);
  return candidate;
}

}  // namespace stepsim
