// Does the host set the pace of the step? What the launching thread does in a step beside what the
// device does, and what a report says of it (models/README.md, "Host").
#pragma once

#include "models/spec/job.h"
#include "sim/graph/work.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

struct HostPace {
  HostWork work;      // of one step
  Duration time{};    // that the host thread needs for it
  Duration device{};  // the step with a host that is always ahead
  bool is_slower() const { return time > device; }
};

// What is left of a step of `now` when something on the device takes less time, so that the device
// alone would need `without`: never longer, and never shorter than the launches of a host that runs
// ahead (one that waits for the device has them in the graph).
Duration WithinHostPace(const JobSpec& job, const HostPace& pace, Duration without, Duration now);

// A step is never shorter than its launches: removing a collective cannot win more, and nothing at
// all where the host sets the pace. REQUIRES: the host runs ahead.
void LimitCeilings(const HostPace& pace, StepReport* report);

// Says that the step is launch-bound and what helps. Nothing when the device sets the pace.
void AddHostWarning(const JobSpec& job, const HostPace& pace, StepReport* report);

}  // namespace stepsim
