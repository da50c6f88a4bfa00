// Ring: every rank passes pieces to the next one; all links carry the same bytes.
#include <algorithm>

#include "models/cost/nccl_algorithm_files.h"

namespace stepsim {
namespace {

double LlShare(const NcclCall& call) {
  if (call.table.minor >= 21) return 0.5;
  const bool reduces = call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduce;
  return call.system.nodes > 1 || reduces ? 0.25 : 1.0 / 3;
}

double BusBandwidth(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const NcclGraph& graph = system.ring;
  const double bus = graph.channels * (system.nodes <= 2 ? graph.intra : graph.inter);
  switch (call.protocol) {
    case NcclProtocol::kLl:
      return std::min(LlLimit(call), LlShare(call) * bus);
    case NcclProtocol::kLl128: {
      const bool shares_a_gpu = call.table.minor < 23 && system.ranks < 2 * system.nodes;
      return std::min((shares_a_gpu ? 0.7 : 0.92) * bus,
                      graph.channels * Limit(call.table.ring_ll128_limit, system));
    }
    case NcclProtocol::kSimple:
      break;
  }
  return bus;
}

// A pipeline: the last rank is one hop behind for each rank before it, or one in all where the
// channels follow the same path.
double PipelineLatency(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const NcclLink link = system.nodes > 1 ? NcclLink::kNet : system.intra_link;
  if (system.same_channels) return HopLatency(call, link, NcclAlgorithm::kRing);
  const bool is_simple = call.protocol == NcclProtocol::kSimple;
  const NcclAlgorithm hop = is_simple ? NcclAlgorithm::kTree : NcclAlgorithm::kRing;
  return RingSteps(call.op, system.ranks) * HopLatency(call, link, hop);
}

// What the host's proxy needs for one step of a ring that leaves the node.
double NetworkOverhead(const NcclCall& call) {
  if (call.system.nodes <= 1) return 0;
  const double us = call.system.cpu == "amd" ? 2 : 1;
  return call.protocol == NcclProtocol::kSimple ? 3 * us : us;
}

double InterSteps(const NcclCall& call) {
  const double nodes = call.system.nodes;
  if (nodes <= 1) return 0;
  if (call.op != CollectiveOp::kAllReduce) return nodes - 1;
  return call.table.minor < 23 ? 2 * nodes : 2 * (nodes - 1);
}

}  // namespace

std::string_view RingRefusal(const NcclCall&, const CollectiveModelSpec&) { return ""; }

NcclPrediction PredictRing(const NcclCall& call) {
  const NcclSystem& system = call.system;
  const double steps = RingSteps(call.op, system.ranks);
  NcclPrediction p{BaseLatency(call, NcclAlgorithm::kRing),
                   BusBandwidth(call) * system.ranks / steps};
  if (call.op == CollectiveOp::kBroadcast || call.op == CollectiveOp::kReduce) {
    p.latency_us += PipelineLatency(call);
    return p;
  }
  const double hop = HopLatency(call, system.intra_link, NcclAlgorithm::kRing);
  const double inter_steps = std::min(steps, InterSteps(call));
  p.latency_us += (steps - inter_steps) * std::max(hop, NetworkOverhead(call)) +
                  inter_steps * InterHop(call, NcclAlgorithm::kRing);
  return p;
}

}  // namespace stepsim
