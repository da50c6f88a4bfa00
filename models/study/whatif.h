// What would each of some changes bring? One line per change, each simulated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/study/variants.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

struct WhatIf {
  std::string text;  // as it was given: "nodes=4+batch.micro_batch_size=2"
  Changes changes;
  std::optional<StepReport> report;  // totals; unset: `error`
  std::string error;
  bool is_input_error = false;  // else the variant cannot run
};

// "nodes=4+plan.strategy=fsdp2" is two changes together: a plus before PATH= joins.
Changes SplitTogether(const std::string& text);

// The step if no communication took any time: no change of overlap or network can win more.
Duration StepWithoutCommunication(const JobSpec& job);

WhatIf TryWhatIf(const JobVariants& variants, const std::string& text);

}  // namespace stepsim
