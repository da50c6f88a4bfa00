#include "sim/graph/site.h"

#include <array>

namespace stepsim {

std::string_view ToString(Site site) {
  constexpr std::array<std::string_view, kSiteCount + 1> kNames = {
      "gradient_reduce",  "parameter_gather", "tensor_parallel", "pipeline_transfer",
      "context_parallel", "expert_parallel",  "optimizer",       "none"};
  return kNames[static_cast<std::size_t>(site)];
}

std::string_view ToString(Phase phase) {
  constexpr std::array<std::string_view, 4> kNames = {"forward", "backward", "optimizer", "other"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace stepsim
