// What would make a job fit? Every change is really made, simulated and measured, so that the
// answer is a number and not a rule of thumb.
//
//   does not fit: ... ; would fit with recompute.granularity=full (41.2 GiB, step +27.0%)
//
// To add a change: one row in memory_advice.cc.
#pragma once

#include <string>
#include <vector>

#include "models/spec/job.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

struct TriedChange {
  std::string settings;  // "recompute.granularity=full", as --set takes them
  Bytes needed;
  Duration step{};
};

struct MemoryAdvice {
  std::vector<TriedChange> fits;  // single changes, or one of several together
  TriedChange least;              // the smallest that was reached, whether it fits or not
};

// Tries one change after another; when none is enough, all that help together.
MemoryAdvice AdviseMemory(const JobSpec& job);

// For a report of a job that does not fit: warns with what would make it fit, or, with
// memory.fail_on_oom, throws a SimulationError that says how much is needed, of what and when.
// Warns as well of recomputation that saves nothing.
void CheckMemoryFits(const JobSpec& job, StepReport* report);

}  // namespace stepsim
