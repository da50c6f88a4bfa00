#include "sim/metrics/step_report.h"

namespace stepsim {
namespace {

// A fraction of what all GPUs could have computed during the step; 0 when that is unknown.
double FractionOfPeak(const StepReport& report, Flops flops) {
  const double available =
      report.step_time_s() * static_cast<double>(report.context.gpus) * report.context.peak.value;
  return available > 0 ? flops.value / available : 0;
}

}  // namespace

double Mfu(const StepReport& report, const std::string& convention) {
  for (const auto& [name, flops] : report.context.model_flops) {
    if (name == convention) return FractionOfPeak(report, flops);
  }
  return 0;
}

double Hfu(const StepReport& report) {
  return FractionOfPeak(report, report.context.hardware_flops);
}

}  // namespace stepsim
