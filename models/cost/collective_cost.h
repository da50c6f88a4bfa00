// How long does a collective take alone? One row per algorithm; equations: models/README.md,
// "Collectives".
//
// To add an algorithm: one file with one function, one row in collective_cost.cc.
#pragma once

#include <span>
#include <string_view>

#include "models/spec/hardware.h"
#include "models/topology/placement.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

struct CollectiveRequest {
  CollectiveOp op = CollectiveOp::kAllReduce;
  Bytes bytes;  // as CollectiveWork counts it
  Placement placement;
};

struct CollectiveAlgorithm {
  std::string_view name;  // "ring"
  std::string_view doc;
  double (*seconds)(const CollectiveRequest&, const HardwareSpec&);
};

// Choices for an all_reduce, in the order of `stepsim list`.
std::span<const CollectiveAlgorithm> AllReduceAlgorithms();
const CollectiveAlgorithm* FindAllReduceAlgorithm(std::string_view name);  // nullptr: no such name

// The algorithms, one file each. A group of one rank takes no time.
double RingSeconds(const CollectiveRequest& request, const HardwareSpec& hardware);
double HierarchicalAllReduceSeconds(const CollectiveRequest& request, const HardwareSpec& hardware);

}  // namespace stepsim
