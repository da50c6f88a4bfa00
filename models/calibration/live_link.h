// What does a link of a live sweep cost, as far as its micro-measurements say? The names of a sweep
// say how it was run; the curve of its all_reduce and what that does to matrix products become the
// link and the contention of a hardware profile.
//
//   const LiveExperiment run = ParseExperiment("veth_tbf_1g_1thread", "gpt8");
//   const LiveLink link = FitLink(sweep, run, /*smallest=*/262144);
//   // link.curve.latency, link.curve.bandwidth, link.core_wait, ...
//
// Equations: models/README.md, "A live sweep".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/calibration/live_sweep.h"
#include "models/spec/calibration_spec.h"

namespace stepsim {

// How a sweep was run, by its names (the table of words is in the .cc).
struct LiveExperiment {
  std::string curve;         // the link whose micro-measurements hold
  std::string network;       // "mlp32"
  std::int64_t threads = 2;  // of gloo
  bool bucket_view = true;   // gradient_as_bucket_view
  // An emulated link of known latency (of one all_reduce) and rate, one transfer after the other.
  std::optional<double> emulated_latency;    // seconds
  std::optional<double> emulated_bandwidth;  // bytes/s
};
LiveExperiment ParseExperiment(const std::string& link, const std::string& config);

struct LiveLink {
  CollectiveCurve curve;        // of an all_reduce of two ranks on two nodes
  double core_demand = 0;       // of the core that computes, at full rate
  bool is_always_full = false;  // ... whatever the rate, while anything is in flight
  double core_wait = 0;         // seconds before it begins beside compute
};

// `smallest`: bytes of the smallest bucket; shorter messages do not enter the fit (a token bucket
// lets a burst through, and a curve's small end is the latency alone).
// Throws ConfigError where nothing was measured of the link.
LiveLink FitLink(const LiveSweep& sweep, const LiveExperiment& experiment,
                 const std::string& config, double smallest);

}  // namespace stepsim
