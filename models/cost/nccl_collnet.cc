// CollNet: the network's switches reduce (SHARP). Direct: every GPU feeds the NICs through
// NVSwitch. Chain: the GPUs of a node form a chain to the NIC.
#include <algorithm>

#include "models/cost/nccl_algorithm_files.h"

namespace stepsim {
namespace {

constexpr double kMostLocalRanks = 8;

std::string_view NetworkRefusal(const NcclCall& call, const CollectiveModelSpec& spec) {
  if (!spec.collnet) return "collectives.collnet is false";
  if (call.protocol != NcclProtocol::kSimple) return "CollNet uses the Simple protocol only";
  if (call.system.nodes <= 1) return "CollNet is for several nodes";
  if (call.system.local_ranks > kMostLocalRanks) return "CollNet takes at most 8 ranks of a node";
  return "";
}

}  // namespace

std::string_view CollNetDirectRefusal(const NcclCall& call, const CollectiveModelSpec& spec) {
  const NcclSystem& system = call.system;
  if (call.op != CollectiveOp::kAllReduce && !IsGatherOrScatter(call.op)) {
    return "CollNetDirect does all_reduce, all_gather and reduce_scatter";
  }
  if (!system.is_switched) return "CollNetDirect needs an NVLink switch";
  if (IsGatherOrScatter(call.op) && system.local_ranks > system.collnet.channels) {
    return "CollNetDirect gathers only where every GPU has a NIC";
  }
  return NetworkRefusal(call, spec);
}

NcclPrediction PredictCollNetDirect(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const NcclGraph& graph = system.collnet;
  const double others = system.local_ranks - 1;
  const double fan = call.table.minor < 19 ? 0.5 : 0.4;  // us for each further GPU
  const double latency = BaseLatency(call, NcclAlgorithm::kCollNetDirect) +
                         2 * (std::min(1.0, others) * HopLatency(call, system.intra_link,
                                                                 NcclAlgorithm::kCollNetDirect) +
                              fan * others) +
                         InterHop(call, NcclAlgorithm::kCollNetDirect);
  if (IsGatherOrScatter(call.op)) {
    return {latency, system.local_ranks * std::min(graph.intra, 0.9 * graph.inter)};
  }
  const double gpus_per_nic = system.local_ranks / graph.channels;
  const double bus = graph.channels * graph.intra / (gpus_per_nic - (gpus_per_nic - 1) / 2);
  return {latency, bus * (system.compute_capability >= 9 ? 0.85 : 1) / 2};
}

std::string_view CollNetChainRefusal(const NcclCall& call, const CollectiveModelSpec& spec) {
  if (call.op != CollectiveOp::kAllReduce) return "CollNetChain does all_reduce only";
  return NetworkRefusal(call, spec);
}

NcclPrediction PredictCollNetChain(const NcclCall& call) {
  const NcclSystem& system = call.system;
  return {BaseLatency(call, NcclAlgorithm::kCollNetChain) +
              2 * (system.local_ranks - 1) *
                  HopLatency(call, system.intra_link, NcclAlgorithm::kCollNetChain) +
              InterHop(call, NcclAlgorithm::kCollNetChain),
          system.collnet.channels * system.collnet.intra / 2};
}

}  // namespace stepsim
