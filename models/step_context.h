// What does a step's report say that no timeline knows? Names, tokens, FLOPs, peak, assumptions.
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

StepContext MakeStepContext(const ResolvedJob& resolved, const Workload& workload);

// StepReport::in_flight of these ranks, from the order of the schedule alone.
std::vector<std::int32_t> InFlight(const JobSpec& job, const std::vector<RankInfo>& ranks);

}  // namespace stepsim
