// Which name did the user mean?
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

// The candidate with the smallest edit distance (letter case ignored, a swap of neighbours counts
// one), or "" when none is near: more than a third of the longer name would have to change.
std::string Nearest(std::string_view name, std::span<const std::string_view> candidates);
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace stepsim
