// An all_reduce in three phases: reduce_scatter inside each node, all_reduce of each shard across
// the nodes (one ring per local rank, sharing the node's NICs), all_gather inside each node.
#include "models/cost/alpha_beta.h"
#include "sim/base/check.h"

namespace stepsim {

double HierarchicalAllReduceSeconds(const CollectiveRequest& request,
                                    const HardwareSpec& hardware) {
  SIM_CHECK(request.op == CollectiveOp::kAllReduce, "hierarchical is an all_reduce");
  const auto local = static_cast<double>(request.placement.ranks_per_node);
  const auto nodes = static_cast<double>(request.placement.nodes);
  double seconds = 0;
  if (local > 1) {
    const LinkShare intra = IntraNode(hardware);
    const double transfer = ToDouble(request.bytes) / intra.bandwidth.value;
    seconds += 2 * ((local - 1) * ToSeconds(intra.latency) + (local - 1) / local * transfer);
  }
  if (nodes > 1) {
    const LinkShare uplink = GroupUplink(hardware, request.placement);
    // `local` rings carry bytes / local each and share the uplink: the node moves `bytes`.
    const double transfer = ToDouble(request.bytes) / uplink.bandwidth.value;
    seconds += 2 * (nodes - 1) * ToSeconds(uplink.latency) + 2 * (nodes - 1) / nodes * transfer;
  }
  return seconds;
}

}  // namespace stepsim
