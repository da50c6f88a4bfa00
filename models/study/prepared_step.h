// How are many jobs tried that differ only in what things cost? The graph is built once; each
// variant is priced and put on the clock.
//
//   PreparedStep step(base);
//   const auto job = WithCosts(base.job, {"hardware.network.link.bandwidth=100 Gb/s"});
//   if (job) step.Try(*job);   // as TryStep, in a tenth of the time
#pragma once

#include <optional>
#include <string_view>

#include "models/simulate_job.h"
#include "models/spec/job.h"
#include "models/study/variants.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Whether a field only says how long things take, not what is done: rates, latencies, efficiencies.
bool ChangesCostsAlone(std::string_view path);

// `job` with other costs; nullopt when a change is none of costs alone, or not possible: then
// JobVariants::With says what is wrong.
std::optional<JobSpec> WithCosts(const JobSpec& job, const Changes& changes);

// Not for several threads at once.
class PreparedStep {
 public:
  explicit PreparedStep(const ResolvedJob& base);
  PreparedStep(const PreparedStep&) = delete;
  PreparedStep& operator=(const PreparedStep&) = delete;

  // The metrics of TryStep; the context says nothing of assumptions. REQUIRES: `job` is the base
  // job or one WithCosts of it. Throws SimulationError when the step cannot finish.
  StepReport Try(const JobSpec& job);

 private:
  const JobSpec base_;
  const Workload workload_;
  JobGraphs graphs_;
  StepContext context_;
};

}  // namespace stepsim
