#include "models/study/target.h"

#include <fmt/format.h>

#include "sim/base/units.h"

namespace stepsim {

double ValueOf(TargetKind kind, const StepReport& report) {
  switch (kind) {
    case TargetKind::kExposed:
      return report.step_time_s() > 0
                 ? ToSeconds(report.account().exposed_total()) / report.step_time_s()
                 : 0;
    case TargetKind::kMfu:
      return Mfu(report, report.context.mfu_convention);
    case TargetKind::kStepTime:
      break;
  }
  return report.step_time_s();
}

double GpuSecondsPerToken(const StepReport& report) {
  const StepContext& context = report.context;
  const double work =
      context.tokens_per_step > 0 ? context.tokens_per_step : context.samples_per_step;
  return work > 0 ? report.step_time_s() * static_cast<double>(context.gpus) / work : 0;
}

bool Holds(const Target& target, const StepReport& report) {
  const double value = ValueOf(target.kind, report);
  return target.kind == TargetKind::kMfu ? value >= target.value : value <= target.value;
}

std::string FormatTarget(const Target& target) {
  switch (target.kind) {
    case TargetKind::kExposed:
      return "exposed <= " + FormatValue(target.kind, target.value);
    case TargetKind::kMfu:
      return "MFU >= " + FormatValue(target.kind, target.value);
    case TargetKind::kStepTime:
      break;
  }
  return "step time <= " + FormatValue(target.kind, target.value);
}

std::string FormatValue(TargetKind kind, double value) {
  return kind == TargetKind::kStepTime ? FormatTime(value) : fmt::format("{:.1f}%", value * 100);
}

}  // namespace stepsim
