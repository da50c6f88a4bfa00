// How are the points of a shard run on all cores? In groups of neighbours; rows come out in order,
// whatever finishes first, and no more than a few groups are held at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "models/study/variants.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/point_runner.h"

namespace stepsim {

struct SweepCounts {
  std::uint64_t points = 0;  // run now
  std::uint64_t done = 0, filtered = 0, errors = 0;
  PointKind first_error_kind = PointKind::kDone;
  std::string first_error;
};

// Runs what is left of `points`. `write` gets whole lines and their number, in order; an exception
// of it ends the sweep. `jobs`: threads; 0: all cores. `expected`: points that are left.
SweepCounts RunSweep(const Grid& grid, const JobVariants& variants, PointSequence& points,
                     std::uint64_t expected, std::size_t jobs,
                     const std::function<void(std::string_view lines, std::uint64_t count)>& write);

}  // namespace stepsim
