#include "models/study/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/study/required.h"
#include "sim/base/diagnostics.h"
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
    result_.predicted = DurationFromSeconds(StepAt(result_.nominal));
    LoadGrid();
    const auto is_shorter = [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; };
    const auto [fastest, slowest] = std::minmax_element(grid_.begin(), grid_.end(), is_shorter);
    result_.fastest = EndOf(*fastest);
    result_.slowest = EndOf(*slowest);
    const std::optional<double> rate = Nearest();
    if (!rate) return result_;
    result_.least = Boundary(*rate, false);
    result_.most = Boundary(*rate, true);
    result_.verdict = Verdict();
    return result_;
  }

 private:
  struct Sample {
    double rate = 0, seconds = 0;
  };

  double StepAt(double rate) {
    const Changes changes = kind_ == InferKind::kNetwork ? Network().set(trial_.job(), rate)
                                                         : ScaleCompute(trial_.job(), rate);
    return ToSeconds(trial_.Try(changes).account().step);
  }

  // Steps at doubled rates, through the nominal one. A faster link does not always make a shorter
  // step: NCCL chooses another algorithm for it.
  void LoadGrid() {
    for (double factor = kLeastRate; factor <= kMostRate; factor *= 2) {
      const double rate = result_.nominal * factor;
      try {
        grid_.push_back({rate, StepAt(rate)});
      } catch (const ConfigError&) {
        if (factor == 1) throw;  // else a rate that no field may have
      }
    }
  }

  RateAndStep EndOf(const Sample& sample) const {
    return {sample.rate / result_.nominal, DurationFromSeconds(sample.seconds)};
  }

  bool Fits(double seconds) const { return std::abs(seconds / measured_ - 1) <= kFit; }
  double Distance(const Sample& sample) const {
    return std::abs(std::log(sample.rate / result_.nominal));
  }

  // The rate next to the nominal one whose step is as long as the measured one.
  std::optional<double> Nearest() {
    std::optional<double> found;
    double least = HUGE_VAL;
    for (std::size_t i = 0; i < grid_.size(); ++i) {
      const Sample& now = grid_[i];
      if (Fits(now.seconds) && Distance(now) < least) {
        least = Distance(now);
        found = now.rate;
      }
      if (i == 0) continue;
      const Sample& before = grid_[i - 1];
      const bool crosses = (now.seconds < measured_) != (before.seconds < measured_);
      const double distance = std::min(Distance(now), Distance(before));
      if (!crosses || distance >= least) continue;
      least = distance;
      found = Crossing(before, now);
    }
    return found;
  }

  double Crossing(Sample a, Sample b) {
    while (b.rate / a.rate > kPrecision && !Fits(a.seconds) && !Fits(b.seconds)) {
      const double rate = std::sqrt(a.rate * b.rate);
      const Sample middle{rate, StepAt(rate)};
      ((middle.seconds < measured_) == (a.seconds < measured_) ? a : b) = middle;
    }
    return Fits(a.seconds) ? a.rate : b.rate;
  }

  // How far the rates reach that fit as `rate` does; upwards nullopt: as far as was looked.
  std::optional<double> Boundary(double rate, bool is_up) {
    double inside = rate;
    std::vector<Sample> way = grid_;
    if (!is_up) std::reverse(way.begin(), way.end());
    for (const Sample& sample : way) {
      if (is_up ? sample.rate <= rate : sample.rate >= rate) continue;
      if (!Fits(sample.seconds)) return Edge(inside, sample.rate);
      inside = sample.rate;
    }
    return is_up ? std::nullopt : std::optional(inside);
  }
  double Edge(double inside, double outside) {
    while (std::max(inside, outside) / std::min(inside, outside) > kPrecision) {
      const double middle = std::sqrt(inside * outside);
      (Fits(StepAt(middle)) ? inside : outside) = middle;
    }
    return inside;
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
  std::vector<Sample> grid_;
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
