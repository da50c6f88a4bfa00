// What does the step hang on? The step again with ten percent more of each thing that hardware has.
//
//   for (const Sensitivity& s : FindSensitivities(variants, {}))
//     // network bandwidth: step 1.20 s -> 1.15 s, elasticity -0.45
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/study/variants.h"
#include "sim/base/time.h"

namespace stepsim {

struct Sensitivity {
  std::string_view name;  // "network bandwidth"
  std::string change;     // "hardware.network.link.bandwidth=27.5 Gb/s"
  Duration now{}, then{};
  // Percent of the step for a percent of it: -1 where the step is as long as it is slow.
  std::optional<double> elasticity;  // unset: a unit more, not a tenth
};

inline constexpr double kMoreOfIt = 1.1;

// Of the job with these changes; rows that the job does not have (a network on one node) are left
// out.
std::vector<Sensitivity> FindSensitivities(const JobVariants& variants, const Changes& changes);

}  // namespace stepsim
