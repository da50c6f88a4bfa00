// Which settings of a job cost time that nobody meant to spend? Most frameworks send something in
// every micro-step by default, and one hardware queue undoes overlap. The price is the difference
// to the same job with the setting changed, simulated.
//
// To add a setting: one row in costly_settings.cc.
#pragma once

#include "models/spec/job.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Adds one warning for each setting without which the step is faster by at least 0.5%: what it
// does, both step times, what the change costs in memory, and the key to change.
void AddCostlySettings(const JobSpec& job, StepReport* report);

}  // namespace stepsim
