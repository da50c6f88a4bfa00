// What did the hardware deliver, if a step was measured that long?
//
//   Infer(trial, InferKind::kNetwork, DurationFromSeconds(4.6))
//     -> 21 Gb/s of 100 Gb/s per NIC: suspicious
//
// Searches the rate at which the simulated step is as long as the measured one, the nearest to the
// nominal one if there are several. Where all of a stretch fit, because the link is hidden, both
// ends are given.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/study/try_changes.h"
#include "sim/base/time.h"

namespace stepsim {

enum class InferKind {
  kNetwork,  // the bandwidth of the slowest link that the job uses
  // The speed of all kernels against the profile's; what a kernel takes before it works at all
  // (`kernel_latency`) stays.
  kCompute,
};

enum class InferVerdict {
  kHealthy,      // what the profile promises is delivered
  kSuspicious,   // less
  kBroken,       // less than half
  kFaster,       // more than the profile promises: the prediction is too slow
  kUnexplained,  // no rate gives this step
};

// A step, and at which part of the nominal rate.
struct RateAndStep {
  double factor = 1;
  Duration step{};
};

// The search goes over these factors of the nominal rate.
inline constexpr double kLeastRate = 1.0 / 4096, kMostRate = 64;

struct Inference {
  Duration predicted{};  // the step at the nominal rate
  double nominal = 0;    // bytes/s, or 1 for compute
  // Rates whose steps are within half a percent of the measured one; `most` unset: any above.
  std::optional<double> least, most;
  RateAndStep fastest, slowest;  // of all that were tried
  InferVerdict verdict = InferVerdict::kUnexplained;
};

std::string_view ToString(InferVerdict verdict);

// REQUIRES: measured > 0; for the network a job of several GPUs.
Inference Infer(Trial& trial, InferKind kind, Duration measured);

// How a rate is set, and written: "21 Gb/s per NIC", "62% of the profile's speed".
std::string FormatRate(const JobSpec& job, InferKind kind, double rate);

}  // namespace stepsim
