// Which collectives of several ranks are one, and how do the ranks' clocks compare? Matched by
// process group and sequence number (without one: by step and place in it); clocks are shifted so
// that the ends of matched collectives agree, because all members of a collective end together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/trace/lane.h"

namespace stepsim {

// The spans of one call: (index of the lane, index of the span), by lane.
using LaneMeeting = std::vector<std::pair<std::size_t, std::size_t>>;

struct MatchedLanes {
  std::vector<LaneMeeting> meetings;  // of two or more lanes
  std::vector<Duration> offsets;      // by lane: added to its times
  Duration residual{};                // median distance between the ends of one call
  std::vector<std::string> warnings;
};
MatchedLanes MatchLanes(const std::vector<Lane>& lanes);

}  // namespace stepsim
