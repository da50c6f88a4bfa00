// Which pipeline does a job have? Its schedule, the stages that it cuts the network into, and whose
// runtime carries it out.
#pragma once

#include <cstdint>

#include "models/pipeline/schedule.h"
#include "models/spec/job.h"

namespace stepsim {

// REQUIRES (all of them): a job without problems.
PipelineSchedule ScheduleOf(const JobSpec& job);
std::int64_t ChunksPerRank(const JobSpec& job);
PipelineRuntime RuntimeOf(const JobSpec& job);  // never kAuto

}  // namespace stepsim
