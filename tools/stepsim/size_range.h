// Which sizes does the user ask about? One grammar for every option that takes several values:
//
//   "1KiB:8GiB:x2"     from 1 KiB to 8 GiB, each twice the one before (":x2" may be left out)
//   "64MB:256MB:+64MB" from 64 MB to 256 MB in steps of 64 MB
//   "8 KiB, 1MiB"      a list, whose items may be ranges
//
// Sizes in bytes carry their unit, counts none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace stepsim {

struct RangeRule {
  std::string option;        // "--bytes", for messages
  Unit unit = Unit::kBytes;  // or kNone: counts
  std::int64_t most = 0;     // the largest value that is still meant
};

inline constexpr std::size_t kMostRangePoints = 10'000;

// The values in the order of the text; at least one, or a diagnostic was added. Every value is a
// whole number from 1 to rule.most, and there are at most kMostRangePoints of them.
std::vector<std::int64_t> ParseRange(std::string_view text, const RangeRule& rule,
                                     Diagnostics& diagnostics);

}  // namespace stepsim
