// A flat ring over the slowest link: latency per step plus bytes over bandwidth.
#include "models/cost/alpha_beta.h"
#include "sim/base/check.h"

namespace stepsim {

double RingSeconds(const CollectiveRequest& request, const HardwareSpec& hardware) {
  if (request.placement.ranks <= 1) return 0;
  return RingSeconds(request, SlowestOfRing(hardware, request.placement));
}

double RingSeconds(const CollectiveRequest& request, const LinkShare& link) {
  const auto n = static_cast<double>(request.placement.ranks);
  if (n <= 1) return 0;
  const double alpha = ToSeconds(link.latency);
  const double transfer = ToDouble(request.bytes) / link.bandwidth.value;
  switch (request.op) {
    case CollectiveOp::kAllReduce:
      return 2 * (n - 1) * alpha + 2 * (n - 1) / n * transfer;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
      return (n - 1) * alpha + (n - 1) / n * transfer;
    case CollectiveOp::kBroadcast:  // pipelined: every byte passes every link once
    case CollectiveOp::kReduce:
      return (n - 1) * alpha + transfer;
    case CollectiveOp::kSendRecv:
      return alpha + transfer;
    case CollectiveOp::kAllToAll:  // pairwise: a part for each of the others
      return (n - 1) * alpha + (n - 1) / n * transfer;
    case CollectiveOp::kPeerCopy:
    case CollectiveOp::kBarrier:
      break;
  }
  SIM_CHECK(false, "the ring model has no equation for this collective");
}

}  // namespace stepsim
