#include "sim/metrics/step_report.h"

#include <fmt/format.h>

#include "sim/base/units.h"

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

std::string MemoryWarning(const StepReport& report) {
  const Bytes needed = report.memory.total;
  const Bytes capacity = report.context.gpu_memory;
  if (capacity.value <= 0 || needed <= capacity) return "";
  return fmt::format("does not fit: {} needed, {} per GPU", FormatMemory(needed),
                     FormatMemory(capacity));
}

}  // namespace stepsim
