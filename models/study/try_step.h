// What does a variant come to? The totals of a step without its lists, for comparing many jobs.
//
//   const StepReport tried = TryStep(variants.With({"nodes=4"}));
//   for (const Metric& metric : Metrics()) metric.value(tried);
#pragma once

#include "models/spec/job.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// The report of RunStep without collectives, micro-steps, ceilings, advice and trust: its metrics
// are the same. Of the warnings it has those of the job's files and that one rank does not stand
// for all. Throws SimulationError when the step cannot finish.
StepReport TryStep(const ResolvedJob& resolved);

}  // namespace stepsim
