// What does a step's report say that no timeline knows? Names, tokens, FLOPs, peak, assumptions.
#pragma once

#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

StepContext MakeStepContext(const ResolvedJob& resolved, const Workload& workload);

}  // namespace stepsim
