// How do the spans of some ranks become the graph and the timeline of a simulation?
//
// Every span is a task on its stream, with its measured start and end. A kernel before which the
// device waited and whose launch had not begun when the wait did gets a host task over that wait.
// Matched collectives are joined by a rendezvous.
#pragma once

#include <vector>

#include "models/trace/lane.h"
#include "models/trace/match_lanes.h"
#include "models/trace/measured_run.h"

namespace stepsim {

// REQUIRES: lanes not empty, by rank; each has a span.
MeasuredRun BuildRun(const std::vector<Lane>& lanes, const MatchedLanes& matched);

}  // namespace stepsim
