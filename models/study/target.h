// What is wanted of a step: at most 5% exposed, at least 40% MFU, at most 1.2 s?
#pragma once

#include <string>

#include "sim/metrics/step_report.h"

namespace stepsim {

enum class TargetKind { kExposed, kMfu, kStepTime };

struct Target {
  TargetKind kind = TargetKind::kExposed;
  double value = 0;  // a fraction of the step, a fraction of the peak, seconds
};

// The share of the step that is exposed, the MFU of the job's convention, or the step's seconds.
double ValueOf(TargetKind kind, const StepReport& report);
bool Holds(const Target& target, const StepReport& report);

// GPU seconds for each token of the step (for each sample, where there are no tokens); compares
// jobs of other batches or numbers of GPUs. 0 without either.
double GpuSecondsPerToken(const StepReport& report);

std::string FormatTarget(const Target& target);          // "exposed <= 5.0%"
std::string FormatValue(TargetKind kind, double value);  // "5.0%", "1.20 s"

}  // namespace stepsim
