#include "models/cost/collective_cost.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

constexpr std::array kAllReduceAlgorithms = {
    CollectiveAlgorithm{"ring", "one flat ring over all ranks of the group", RingSeconds},
    CollectiveAlgorithm{
        "hierarchical",
        "reduce_scatter in the node, all_reduce across nodes, all_gather in the node",
        HierarchicalAllReduceSeconds},
};

}  // namespace

std::span<const CollectiveAlgorithm> AllReduceAlgorithms() { return kAllReduceAlgorithms; }

const CollectiveAlgorithm* FindAllReduceAlgorithm(std::string_view name) {
  const auto found =
      std::find_if(kAllReduceAlgorithms.begin(), kAllReduceAlgorithms.end(),
                   [&](const CollectiveAlgorithm& algorithm) { return algorithm.name == name; });
  return found == kAllReduceAlgorithms.end() ? nullptr : &*found;
}

}  // namespace stepsim
