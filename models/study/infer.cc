#include "models/study/infer.h"

#include <fmt/format.h>

#include <cmath>

#include "models/study/required.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr double kFit = 0.005;        // of the measured step
constexpr double kPrecision = 1.002;  // of a rate
// Of the nominal rate. Measured steps vary by a few percent, rates by more.
constexpr double kHealthyFrom = 0.8, kBrokenBelow = 0.5, kFasterFrom = 1.25;

const FreeVariable& Network() { return *FindFreeVariable("network"); }

// Kernels are as fast as peak and memory let them be.
Changes ScaleCompute(const JobSpec& job, double factor) {
  const GpuSpec& gpu = job.hardware.gpu;
  Changes changes = {"hardware.gpu.hbm_bandwidth=" +
                     WriteQuantity(gpu.hbm_bandwidth.value * factor, Unit::kBandwidth)};
  const std::pair<const char*, FlopRate> peaks[] = {{"fp32", gpu.peak.fp32},
                                                    {"tf32", gpu.peak.tf32},
                                                    {"bf16", gpu.peak.bf16},
                                                    {"fp16", gpu.peak.fp16},
                                                    {"fp8", gpu.peak.fp8}};
  for (const auto& [name, peak] : peaks) {
    if (peak.value <= 0) continue;
    changes.push_back(fmt::format("hardware.gpu.peak.{}={}", name,
                                  WriteQuantity(peak.value * factor, Unit::kFlopRate)));
  }
  return changes;
}

class Inferrer {
 public:
  Inferrer(Trial& trial, InferKind kind, Duration measured)
      : trial_(trial), kind_(kind), measured_(ToSeconds(measured)) {
    result_.nominal = kind == InferKind::kNetwork ? Network().now(trial.job()) : 1;
  }

  Inference Run() {
    result_.predicted = StepAt(result_.nominal);
    result_.fastest = StepAt(result_.nominal * kMostRate);
    result_.slowest = StepAt(result_.nominal * kLeastRate);
    const double longest = measured_ * (1 + kFit), shortest = measured_ * (1 - kFit);
    if (ToSeconds(result_.fastest) > longest || ToSeconds(result_.slowest) < shortest) {
      return result_;
    }
    result_.least = SmallestWithin(longest);
    if (ToSeconds(result_.fastest) < shortest) result_.most = SmallestWithin(shortest);
    result_.verdict = Verdict();
    return result_;
  }

 private:
  Duration StepAt(double rate) {
    const Changes changes = kind_ == InferKind::kNetwork ? Network().set(trial_.job(), rate)
                                                         : ScaleCompute(trial_.job(), rate);
    return trial_.Try(changes).account().step;
  }

  // The smallest rate whose step is at most `seconds` long.
  double SmallestWithin(double seconds) {
    double slow = result_.nominal * kLeastRate, fast = result_.nominal * kMostRate;
    if (ToSeconds(result_.slowest) <= seconds) return slow;
    while (fast / slow > kPrecision) {
      const double middle = std::sqrt(slow * fast);
      (ToSeconds(StepAt(middle)) <= seconds ? fast : slow) = middle;
    }
    return fast;
  }

  InferVerdict Verdict() const {
    const double least = *result_.least / result_.nominal;
    if (!result_.most) return least <= 1 ? InferVerdict::kHealthy : InferVerdict::kFaster;
    const double most = *result_.most / result_.nominal;
    if (least > kFasterFrom) return InferVerdict::kFaster;
    if (most >= kHealthyFrom) return InferVerdict::kHealthy;
    return most < kBrokenBelow ? InferVerdict::kBroken : InferVerdict::kSuspicious;
  }

  Trial& trial_;
  InferKind kind_;
  double measured_;
  Inference result_;
};

}  // namespace

std::string_view ToString(InferVerdict verdict) {
  switch (verdict) {
    case InferVerdict::kHealthy:
      return "healthy";
    case InferVerdict::kSuspicious:
      return "suspicious";
    case InferVerdict::kBroken:
      return "broken";
    case InferVerdict::kFaster:
      return "faster than predicted";
    case InferVerdict::kUnexplained:
      break;
  }
  return "not explained";
}

Inference Infer(Trial& trial, InferKind kind, Duration measured) {
  return Inferrer(trial, kind, measured).Run();
}

std::string FormatRate(const JobSpec& job, InferKind kind, double rate) {
  if (kind == InferKind::kNetwork) return Network().text(job, rate);
  return fmt::format("{:.0f}% of the profile's speed", rate * 100);
}

}  // namespace stepsim
