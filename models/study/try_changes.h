// What does a job come to with these changes? By the graph that is there where only costs change,
// else from the start.
//
//   Trial trial(variants);
//   trial.Try({"hardware.network.link.bandwidth=100 Gb/s"})   // a StepReport of totals
#pragma once

#include <memory>

#include "models/study/prepared_step.h"
#include "models/study/variants.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Not for several threads at once; several may share the variants.
class Trial {
 public:
  // REQUIRES: `variants` outlives this object.
  explicit Trial(const JobVariants& variants) : variants_(variants) {}

  // Totals, as TryStep gives them. Throws ConfigError when the variant is wrong, SimulationError
  // when it cannot run.
  StepReport Try(const Changes& changes);

  const JobVariants& variants() const { return variants_; }
  const JobSpec& job() const { return variants_.base().job; }

 private:
  const JobVariants& variants_;
  std::unique_ptr<PreparedStep> prepared_;  // of the base job, from its first use on
};

}  // namespace stepsim
