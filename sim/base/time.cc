#include "sim/base/time.h"

#include <cmath>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"

namespace stepsim {

Duration DurationFromSeconds(double seconds) {
  SIM_CHECK(seconds >= 0, "a duration must be a non-negative number");
  const double picoseconds = std::ceil(seconds * 1e12);
  if (picoseconds >= 9e18) {
    throw SimulationError("a task would take longer than 100 days: check its size and rates");
  }
  return Duration(static_cast<std::int64_t>(picoseconds));
}

}  // namespace stepsim
