// What became of each collective of a measured step, and why is it exposed, as far as a trace
// tells? It does not tell what a kernel waits for: slack and first use stay empty.
#pragma once

#include <vector>

#include "models/trace/measured_run.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Those of one rank that are resident inside the window, by start; times relative to its begin.
std::vector<CollectiveReport> MeasuredCollectives(const MeasuredRun& run,
                                                  const RankActivity& activity, Window window);

}  // namespace stepsim
