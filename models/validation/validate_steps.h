// How far from published training steps are the predictions? Every row of a table mapped, simulated
// and compared.
//
//   const ValidatedStep step = ValidateStep(table, 0, configs);
//   if (step.is_scored()) step.Error();   // predicted / measured - 1
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/config_source.h"
#include "models/validation/map_row.h"
#include "models/validation/predict_step.h"
#include "models/validation/published_row.h"

namespace stepsim {

enum class StepStatus { kPredicted, kSkipped, kOom };
std::string_view ToString(StepStatus status);

struct ValidatedStep {
  std::size_t row = 0;
  StepStatus status = StepStatus::kSkipped;
  std::string reason;  // of what is not predicted
  double measured_s = 0;
  StepPrediction prediction;
  std::vector<std::string> assumptions;
  double measured_peak_bytes = 0;  // 0: not published

  bool is_scored() const { return status != StepStatus::kSkipped && measured_s > 0; }
  double Error() const { return prediction.seconds / measured_s - 1; }
};

// One row of the table. May be called by several threads at once. Never throws for what the row
// says: such a row is skipped, with the reason.
ValidatedStep ValidateStep(const PublishedTable& table, std::size_t row,
                           const ConfigSource& configs, const MachineScale& scale = {});

}  // namespace stepsim
