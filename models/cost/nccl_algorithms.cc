#include <algorithm>
#include <array>
#include <cmath>

#include "models/cost/nccl_algorithm_files.h"
#include "models/cost/nccl_model.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::array<NcclAlgorithmRow, kNcclAlgorithms> kRows = {{
    {NcclAlgorithm::kTree, "tree", TreeRefusal, PredictTree},
    {NcclAlgorithm::kRing, "ring", RingRefusal, PredictRing},
    {NcclAlgorithm::kCollNetDirect, "collnet_direct", CollNetDirectRefusal, PredictCollNetDirect},
    {NcclAlgorithm::kCollNetChain, "collnet_chain", CollNetChainRefusal, PredictCollNetChain},
    {NcclAlgorithm::kNvls, "nvls", NvlsRefusal, PredictNvls},
    {NcclAlgorithm::kNvlsTree, "nvls_tree", NvlsTreeRefusal, PredictNvlsTree},
    {NcclAlgorithm::kPat, "pat", PatRefusal, PredictPat},
}};

std::size_t NodesColumn(const NcclSystem& system) {
  return system.nodes <= 1 ? 0 : system.nodes <= 2 ? 1 : 2;
}

}  // namespace

std::span<const NcclAlgorithmRow> NcclAlgorithmRows() { return kRows; }

const NcclAlgorithmRow& RowOf(NcclAlgorithm algorithm) { return kRows[NcclIndex(algorithm)]; }

std::string_view NameOf(NcclProtocol protocol) {
  constexpr std::array<std::string_view, kNcclProtocols> kNames = {"ll", "ll128", "simple"};
  return kNames[NcclIndex(protocol)];
}

std::string_view ProtocolRefusal(const NcclCall& call, bool is_asked_for) {
  if (call.protocol == NcclProtocol::kSimple || is_asked_for) return "";
  if (call.system.is_simple_only) return "the network's plug-in allows the Simple protocol only";
  if (call.protocol == NcclProtocol::kLl128 && !call.system.has_ll128_path) {
    return "LL128 needs NVLink in the node, RDMA between nodes, and compute capability 7.0";
  }
  return "";
}

NcclPrediction CorrectedForSize(const NcclCall& call, NcclAlgorithm algorithm, double bytes,
                                NcclPrediction prediction) {
  if (call.op != CollectiveOp::kAllReduce) return prediction;
  const NcclSystem& system = call.system;
  const bool is_x86_blackwell = system.generation == GpuGeneration::kBlackwell &&
                                (system.cpu == "intel" || system.cpu == "amd");
  const bool corrects_nvls_tree = call.table.minor >= 29 && is_x86_blackwell;
  if (algorithm == NcclAlgorithm::kTree ||
      (algorithm == NcclAlgorithm::kNvlsTree && corrects_nvls_tree)) {
    prediction.bandwidth *= TreeCorrection(call.protocol, bytes);
  }
  const bool is_ring_between_nodes = algorithm == NcclAlgorithm::kRing &&
                                     call.protocol == NcclProtocol::kSimple && system.nodes > 1;
  const double share = std::floor(bytes / (static_cast<double>(system.ring_ctas) * system.ranks));
  if (is_ring_between_nodes && share >= 64) {
    prediction.latency_us *= system.compute_capability < 8 ? 1.9 : 1.4;
  }
  return prediction;
}

bool IsGatherOrScatter(CollectiveOp op) {
  return op == CollectiveOp::kAllGather || op == CollectiveOp::kReduceScatter;
}

double RingSteps(CollectiveOp op, double ranks) {
  if (op == CollectiveOp::kAllReduce) return 2 * (ranks - 1);
  return IsGatherOrScatter(op) ? ranks - 1 : ranks;
}

double BaseLatency(const NcclCall& call, NcclAlgorithm algorithm) {
  return call.table.base_us[NcclIndex(algorithm)][NcclIndex(call.protocol)];
}

double HopLatency(const NcclCall& call, NcclLink link, NcclAlgorithm algorithm) {
  const double added = link == NcclLink::kNet ? 0 : call.system.intra_latency_us;
  return call.table.hop_us[NcclIndex(link)][NcclIndex(algorithm)][NcclIndex(call.protocol)] + added;
}

double InterHop(const NcclCall& call, NcclAlgorithm algorithm) {
  // With one rank per node nothing hides the hop: the tree's latency holds for all.
  const bool is_exposed = call.system.local_ranks == 1 && call.table.minor >= 23;
  const double hop =
      HopLatency(call, NcclLink::kNet, is_exposed ? NcclAlgorithm::kTree : algorithm);
  const double declared = call.system.inter_latency_us;
  return hop + declared + (call.protocol == NcclProtocol::kSimple ? declared : 0);
}

double Limit(const ByGeneration& limits, const NcclSystem& system) {
  return limits[NcclIndex(system.generation)][NodesColumn(system)];
}

double LlLimit(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const std::size_t by_cpu = system.cpu == "amd" ? 1 : 0;
  const std::size_t row = system.nodes <= 1 ? NcclIndex(system.generation) : by_cpu;
  return call.table.ll_limit[row][NodesColumn(system)];
}

}  // namespace stepsim
