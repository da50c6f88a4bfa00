// What is a second? Simulated time is a whole number of picoseconds, so that sums are exact and the
// accounting identity can be checked with ==. Range: +-106 days.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

namespace stepsim {

using Duration = std::chrono::duration<std::int64_t, std::pico>;

// The clock of a simulated step: time 0 is its begin. It never ticks by itself.
struct SimClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<SimClock>;
  static constexpr bool is_steady = true;
};
using SimTime = SimClock::time_point;

inline constexpr SimTime kStepBegin{};

// Rounds up to a whole picosecond: a task never takes less than its cost model says.
// REQUIRES: seconds is finite and >= 0. Values beyond the range are a SimulationError.
Duration DurationFromSeconds(double seconds);

constexpr double ToSeconds(Duration d) { return static_cast<double>(d.count()) / 1e12; }
constexpr double ToMicroseconds(Duration d) { return static_cast<double>(d.count()) / 1e6; }
constexpr double ToSeconds(SimTime t) { return ToSeconds(t.time_since_epoch()); }
constexpr double ToMicroseconds(SimTime t) { return ToMicroseconds(t.time_since_epoch()); }

}  // namespace stepsim
