// Tree: two binary trees over the nodes, a chain inside each; half of the buffer on either.
#include <algorithm>
#include <cmath>

#include "models/cost/nccl_algorithm_files.h"

namespace stepsim {
namespace {

double BusBandwidth(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const NcclGraph& graph = system.tree;
  const double speed = system.nodes <= 2 ? graph.intra : graph.inter;
  const double simple = std::min(0.92 * graph.channels * speed,
                                 graph.channels * Limit(call.table.tree_limit, system));
  switch (call.protocol) {
    case NcclProtocol::kLl:
      return std::min(simple / 3.8, LlLimit(call));
    case NcclProtocol::kLl128:
      return std::min(simple * (system.nodes <= 1 ? 7.0 / 9 : 120.0 / 128),
                      graph.channels * Limit(call.table.tree_ll128_limit, system));
    case NcclProtocol::kSimple:
      break;
  }
  return simple;
}

}  // namespace

std::string_view TreeRefusal(const NcclCall& call, const CollectiveModelSpec&) {
  return call.op == CollectiveOp::kAllReduce ? "" : "a tree does all_reduce only";
}

NcclPrediction PredictTree(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const double intra = HopLatency(call, system.intra_link, NcclAlgorithm::kTree);
  const double inter = InterHop(call, NcclAlgorithm::kTree);
  const double local = std::floor(system.ranks / system.nodes);
  const double levels = std::floor(std::log2(system.nodes));
  return {BaseLatency(call, NcclAlgorithm::kTree) + 2 * ((local - 1) * intra + levels * inter),
          BusBandwidth(call) * (system.has_plain_tree ? 0.85 : 1) / 2};
}

}  // namespace stepsim
