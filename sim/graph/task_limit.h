// How many tasks can one graph hold? Ids leave two bits for the kind of a constraint.
#pragma once

#include <cstddef>

namespace stepsim {

inline constexpr std::size_t kMaxTasks = 0x3FFFFFFF;

}  // namespace stepsim
