#include "models/validation/validate_steps.h"

#include <fmt/format.h>

#include <new>

namespace stepsim {
namespace {

// "pipeline: found ..." without the place in a file that there is none of.
std::string ReasonOf(const ConfigError& error) {
  return error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
}

}  // namespace

std::string_view ToString(StepStatus status) {
  switch (status) {
    case StepStatus::kPredicted:
      return "predicted";
    case StepStatus::kSkipped:
      return "skipped";
    case StepStatus::kOom:
      return "oom";
  }
  return "";
}

ValidatedStep ValidateStep(const PublishedTable& table, std::size_t row,
                           const ConfigSource& configs, const MachineScale& scale) {
  ValidatedStep step;
  step.row = row;
  const PublishedRow published = table.Row(row);
  const MappedRow mapped = MapRow(published);
  step.assumptions = mapped.assumptions;
  step.measured_s = mapped.measured.seconds.value_or(0);
  step.measured_peak_bytes = mapped.measured.peak_bytes.value_or(0);
  step.reason = mapped.skipped;
  if (!step.reason.empty()) return step;
  try {
    const ResolvedJob job = LoadMappedJob(mapped, std::string(published.id()), configs);
    step.prediction = PredictStep(job, scale);
  } catch (const ConfigError& error) {
    step.reason = "refused: " + ReasonOf(error);
    return step;
  } catch (const SimulationError& error) {
    step.reason = fmt::format("cannot run: {}", error.what());
    return step;
  }
  if (mapped.measured.flops_per_gpu) {
    for (const auto& [name, flops] : step.prediction.model_flops) {
      if (name != mapped.measured.convention) continue;
      step.measured_s = flops / (*mapped.measured.flops_per_gpu * step.prediction.gpus);
    }
  }
  constexpr double kGib = 1 << 30;
  step.status = step.prediction.Fits() ? StepStatus::kPredicted : StepStatus::kOom;
  if (step.status == StepStatus::kOom) {
    step.reason = fmt::format("needs {:.1f} of {:.1f} GiB", step.prediction.peak_bytes / kGib,
                              step.prediction.memory_bytes / kGib);
  }
  return step;
}

}  // namespace stepsim
