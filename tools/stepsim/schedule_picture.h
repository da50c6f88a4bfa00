// What does a schedule look like? Its replay in characters, one line per rank:
//
//   rank 0  F0F1....B0--B1--
//   rank 1  ..F0B0--F1B1--..
#pragma once

#include <cstddef>
#include <string>

#include "models/pipeline/replay.h"
#include "models/pipeline/schedule.h"

namespace stepsim {

// At most `width` columns where the schedule allows it: every operation with its micro-batch where
// there is room, else one letter per stretch of time. The last lines say how to read it.
std::string DrawReplay(const PipelineSchedule& schedule, const ScheduleReplay& replay,
                       std::size_t width);

// The actions as PyTorch writes them, one paragraph per rank; those of large schedules are cut.
std::string ActionTable(const PipelineSchedule& schedule, std::size_t width);

}  // namespace stepsim
