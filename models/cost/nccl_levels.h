// Collectives in two levels: inside each node, and between ranks that sit at the same place of
// their nodes. NCCL has no such algorithm; a job asks for it (HSDP and its like issue the parts
// themselves).
#pragma once

#include <string_view>
#include <vector>

#include "models/cost/collective_cost.h"

namespace stepsim {

// The parts of `algorithm` ("hierarchical", "two_level") one after the other. Empty: it has none
// for this collective.
std::vector<CollectiveRequest> LevelsOf(std::string_view algorithm,
                                        const CollectiveRequest& request);
// Why LevelsOf is empty for a collective that it does not do.
std::string_view LevelsRefusal(std::string_view algorithm);
// One after the other; holds as much as the largest of them.
CollectiveCost SumOfLevels(std::string_view algorithm, const std::vector<CollectiveCost>& parts);

}  // namespace stepsim
