#include "models/cost/nccl_occupancy.h"

#include <algorithm>
#include <cmath>

namespace stepsim {
namespace {

bool IsCollNet(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::kCollNetDirect || algorithm == NcclAlgorithm::kCollNetChain;
}

// Enough for the switch when buffers are registered: NCCL's recommendation for eight heads.
std::int64_t RegisteredNvlsCtas(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const bool is_blackwell = system.generation == GpuGeneration::kBlackwell;
  double factor = 4;
  if (system.nodes > 1) {
    const bool is_fast_network = is_blackwell && system.nvls.inter >= 96;
    const double rate = system.nvls.channels * std::min(system.nvls.intra, system.nvls.inter);
    factor = call.op == CollectiveOp::kReduceScatter && rate > 400 ? 7 : 6;
    if (call.op == CollectiveOp::kAllReduce && is_blackwell) factor = is_fast_network ? 10 : 7;
  } else if (call.op == CollectiveOp::kReduceScatter) {
    factor = is_blackwell ? 6 : 5;
  } else if (call.op == CollectiveOp::kAllReduce) {
    factor = is_blackwell ? 8 : 4;
  }
  return static_cast<std::int64_t>(std::ceil(factor * 8 / std::max(1.0, system.nvls.channels)));
}

std::int64_t FullChannels(const NcclCall& call, NcclAlgorithm algorithm,
                          const CollectiveModelSpec& spec) {
  const NcclSystem& system = call.system;
  if (IsInSwitch(algorithm)) {
    return spec.registered_buffers ? std::min(system.nvls_ctas, RegisteredNvlsCtas(call))
                                   : system.nvls_ctas;
  }
  if (IsCollNet(algorithm)) {
    if (spec.registered_buffers && system.local_ranks == 1) return 1;
    return system.ring_ctas + system.ring_ctas / 2;
  }
  return system.ring_ctas;
}

double Threads(const NcclCall& call, NcclAlgorithm algorithm) {
  if (algorithm == NcclAlgorithm::kRing && call.protocol == NcclProtocol::kSimple) {
    constexpr double kPciRate = 12;  // GB/s of 16 lanes of the third generation
    return call.system.ring.channels * call.system.ring.intra <= kPciRate ? 256 : 512;
  }
  return call.protocol == NcclProtocol::kLl ? 512 : 640;
}

// Bytes that keep one thread busy.
double ThreadThreshold(const NcclCall& call, NcclAlgorithm algorithm) {
  if (IsCollNet(algorithm)) return 512;
  if (call.protocol == NcclProtocol::kSimple) return 64;
  const bool is_ring_ll = algorithm == NcclAlgorithm::kRing && call.protocol == NcclProtocol::kLl;
  return is_ring_ll ? 8 * call.system.ranks : 8;
}

// Channels that a call of this size can fill.
double ChannelsFor(const NcclCall& call, NcclAlgorithm algorithm, double bytes) {
  constexpr double kLeastTraffic = 32 * 1024;  // of one channel
  const double traffic = bytes * (call.op == CollectiveOp::kAllReduce ? 2 : 1) *
                         (call.protocol == NcclProtocol::kLl ? 4 : 1);
  const double by_traffic = std::ceil(traffic / kLeastTraffic);
  if (IsInSwitch(algorithm)) return by_traffic;
  const double by_threads =
      std::floor(bytes / (Threads(call, algorithm) * ThreadThreshold(call, algorithm)));
  return std::min(by_traffic, by_threads);
}

}  // namespace

bool IsInSwitch(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::kNvls || algorithm == NcclAlgorithm::kNvlsTree;
}

ChannelCount ChannelsOf(const NcclCall& call, NcclAlgorithm algorithm, double bytes,
                        const CollectiveModelSpec& spec) {
  ChannelCount count;
  count.full = FullChannels(call, algorithm, spec);
  std::int64_t most = std::max(count.full, spec.min_ctas);
  if (spec.max_ctas > 0) most = std::min(most, std::max(spec.max_ctas, spec.min_ctas));
  count.rate = std::min(1.0, static_cast<double>(most) / static_cast<double>(count.full));
  const double filled =
      std::clamp(ChannelsFor(call, algorithm, bytes), 1.0, static_cast<double>(most));
  count.used = static_cast<std::int64_t>(filled);
  return count;
}

double WireFactor(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::kLl:
      return 2;  // a flag beside every four bytes
    case NcclProtocol::kLl128:
      return 128.0 / 120;
    case NcclProtocol::kSimple:
      break;
  }
  return 1;
}

double HbmPerBusByte(NcclProtocol protocol, bool is_direct) {
  return (is_direct ? 2 : 3) * WireFactor(protocol);
}

double NodeTraffic(const NcclCall& call, NcclAlgorithm algorithm) {
  const NcclSystem& system = call.system;
  if (system.nodes <= 1) return 0;
  const bool is_tree = algorithm == NcclAlgorithm::kTree || algorithm == NcclAlgorithm::kNvlsTree;
  // Two trees: between two nodes each sends the buffer once, with more nodes an inner one twice.
  if (is_tree) return system.nodes <= 2 ? 1 : 2;
  if (IsCollNet(algorithm) || algorithm == NcclAlgorithm::kNvls) return 1;
  return BusFactor(call.op, static_cast<std::int64_t>(system.ranks));
}

}  // namespace stepsim
