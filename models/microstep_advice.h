// Does gradient accumulation communicate more than it must? Most frameworks send something in every
// micro-step by default. The price is the difference to the same job with the knob that stops it,
// simulated.
#pragma once

#include "models/spec/job.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Adds one warning for each knob that would make the step faster by at least 0.5%: what is sent per
// micro-step, the knob, both step times and what it costs in memory. Nothing without accumulation.
void AddMicrostepWarnings(const JobSpec& job, StepReport* report);

}  // namespace stepsim
