// PAT: all_gather and reduce_scatter in a logarithmic number of steps, for one GPU per node.
#include <cmath>

#include "models/cost/nccl_algorithm_files.h"

namespace stepsim {

std::string_view PatRefusal(const NcclCall& call, const CollectiveModelSpec&) {
  if (!IsGatherOrScatter(call.op)) return "PAT does all_gather and reduce_scatter";
  if (call.table.minor < 23) return "PAT came with NCCL 2.23";
  if (call.protocol != NcclProtocol::kSimple) return "PAT uses the Simple protocol only";
  if (call.system.nodes < 2 || call.system.local_ranks > 1) return "PAT needs one rank per node";
  return "";
}

NcclPrediction PredictPat(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const NcclGraph& graph = system.ring;
  const double bus = graph.channels * (system.nodes <= 2 ? graph.intra : graph.inter);
  const double levels = std::floor(std::log2(system.nodes));
  return {BaseLatency(call, NcclAlgorithm::kPat) +
              levels * InterHop(call, NcclAlgorithm::kPat) / 3.5 + 2.8 * system.ranks,
          bus * (call.table.minor < 24 ? 0.85 : 0.75)};
}

}  // namespace stepsim
