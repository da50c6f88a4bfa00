// NVLS: the NVLink switch adds and multicasts. NVLSTree: NVLS inside each node, a tree between
// them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/cost/nccl_algorithm_files.h"

namespace stepsim {
namespace {

constexpr double kMostGatherRanks = 32;  // of one node, for all_gather and reduce_scatter

std::string_view SwitchRefusal(const NcclCall& call, const CollectiveModelSpec& spec) {
  const NcclSystem& system = call.system;
  if (!spec.nvls) return "collectives.nvls is false";
  if (call.protocol != NcclProtocol::kSimple) return "NVLS uses the Simple protocol only";
  if (system.nvls.channels < 2 || system.nvls.intra <= 0) {
    return "NVLS needs an NVLink switch, compute capability 9.0, and two ranks on a node";
  }
  return "";
}

// Bus bandwidth since 2.28: reductions and multicasts of an all_reduce run at the same time, one of
// the `channels` parts of each GPU's traffic stays on the GPU.
double BusBandwidth(const NcclCall& call, bool is_tree) {
  const NcclSystem& system = call.system;
  const NcclGraph& graph = system.nvls;
  double intra =
      graph.intra * NvlsEfficiency(system.generation) * (graph.channels - 1) / graph.channels;
  intra *= call.op == CollectiveOp::kAllReduce ? 2 : (system.local_ranks - 1) / system.local_ranks;
  const double inter = graph.inter * (is_tree && system.nodes <= 2 ? 2 : 1);
  const double limit =
      is_tree ? Limit(call.table.nvls_tree_limit, system) : std::numeric_limits<double>::infinity();
  return graph.channels * std::min({intra, inter, limit});
}

double AlgorithmBandwidth(const NcclCall& call, bool is_tree) {
  const NcclSystem& system = call.system;
  const NcclGraph& graph = system.nvls;
  const double to_algorithm =
      IsGatherOrScatter(call.op) ? 1 : system.ranks / RingSteps(call.op, system.ranks);
  if (call.table.minor >= 28) return BusBandwidth(call, is_tree) * to_algorithm;
  const bool is_halved = is_tree && system.nodes > 2 && call.table.minor >= 19;
  const double bus = graph.channels * std::min(graph.intra, graph.inter * (is_halved ? 0.5 : 1));
  if (IsGatherOrScatter(call.op)) return bus;
  if (is_tree && call.table.minor < 19) return bus * 0.7 * system.nodes / (2 * (system.nodes - 1));
  return bus * 5 / 6;
}

}  // namespace

std::string_view NvlsRefusal(const NcclCall& call, const CollectiveModelSpec& spec) {
  const NcclSystem& system = call.system;
  if (call.op != CollectiveOp::kAllReduce && !IsGatherOrScatter(call.op)) {
    return "NVLS does all_reduce, all_gather and reduce_scatter";
  }
  const std::string_view reason = SwitchRefusal(call, spec);
  if (!reason.empty()) return reason;
  if (system.nodes > 1 && !spec.collnet) return "NVLS over several nodes needs collectives.collnet";
  if (IsGatherOrScatter(call.op)) {
    if (system.local_ranks > kMostGatherRanks)
      return "NVLS gathers over at most 32 ranks of a node";
    if (system.nodes > 1 && system.local_ranks > system.nvls.channels) {
      return "NVLS over several nodes gathers only where every GPU has a NIC";
    }
  }
  return "";
}

NcclPrediction PredictNvls(const NcclCall& call) {
  NcclPrediction p{HopLatency(call, call.system.intra_link, NcclAlgorithm::kNvls),
                   AlgorithmBandwidth(call, false)};
  if (call.table.minor < 19) p.latency_us += BaseLatency(call, NcclAlgorithm::kNvls);
  if (call.system.nodes > 1) p.latency_us += InterHop(call, NcclAlgorithm::kNvls);
  return p;
}

double MulticastBandwidth(const NcclSystem& delivered) {
  return delivered.nvls.intra * (delivered.nvls.channels + 1);
}

std::string_view NvlsTreeRefusal(const NcclCall& call, const CollectiveModelSpec& spec) {
  if (call.op != CollectiveOp::kAllReduce) return "NVLSTree does all_reduce only";
  if (call.system.nodes <= 1) return "NVLSTree is for several nodes";
  return SwitchRefusal(call, spec);
}

NcclPrediction PredictNvlsTree(const NcclCall& call) {
  const double nodes = call.system.nodes;
  // The oldest release counts the nodes of a chain.
  const double hops = call.table.minor < 19 ? nodes - 1 : std::floor(std::log2(nodes));
  return {BaseLatency(call, NcclAlgorithm::kNvlsTree) +
              HopLatency(call, call.system.intra_link, NcclAlgorithm::kNvlsTree) +
              2 * hops * InterHop(call, NcclAlgorithm::kNvlsTree),
          AlgorithmBandwidth(call, true)};
}

}  // namespace stepsim
