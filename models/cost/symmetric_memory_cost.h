// How long does a rank take to read from a peer's memory, or to wait for all peers, without a
// communication library? Copies on a copy engine take no SMs; a barrier is one small kernel.
#pragma once

#include "models/cost/collective_cost.h"
#include "models/spec/hardware.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

// REQUIRES: kPeerCopy or kBarrier. The peers are on the rank's own node.
CollectiveCost PriceSymmetric(CollectiveOp op, Bytes bytes, const HardwareSpec& hardware);

}  // namespace stepsim
