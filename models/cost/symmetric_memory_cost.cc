#include "models/cost/symmetric_memory_cost.h"

#include "models/topology/placement.h"

namespace stepsim {

// Every rank pulls as much as its peers pull from it: a byte of a copy is written and read once in
// this rank's HBM. A barrier's flags go to the peers and are seen there: one way over the link.
CollectiveCost PriceSymmetric(CollectiveOp op, Bytes bytes, const HardwareSpec& hardware) {
  const LinkShare link = IntraNode(hardware);
  CollectiveCost cost;
  cost.latency_seconds = ToSeconds(hardware.gpu.kernel_latency) + ToSeconds(link.latency);
  cost.seconds = cost.latency_seconds;
  cost.protocol = "symmetric";
  if (op == CollectiveOp::kBarrier) {
    cost.algorithm = "barrier";
    cost.sms = 1;
    return cost;
  }
  cost.algorithm = "copy_engine";
  cost.seconds += ToDouble(bytes) / link.bandwidth.value;
  cost.hbm_bytes = 2 * ToDouble(bytes);
  cost.intra_share = 1;
  return cost;
}

}  // namespace stepsim
