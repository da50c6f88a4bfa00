// How far from a live bucket sweep is the simulator? Every measured point as a job of its own, made
// of the micro-measurements alone, simulated as `stepsim run` would.
//
//   const LiveValidation validation = ValidateLiveSweep(sweep, configs);
//   validation.points[0].predicted / validation.points[0].step.seconds - 1   // the error
//
// What is measured and what follows from it: models/README.md, "A live sweep".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/calibration/live_link.h"
#include "models/calibration/live_sweep.h"
#include "models/spec/config_source.h"

namespace stepsim {

struct LivePrediction {
  LiveStep step;
  double predicted = 0;          // seconds of the step
  double predicted_no_sync = 0;  // ... without communication
  std::int64_t buckets = 0;      // by DDP's rule
  double exposed() const { return predicted - predicted_no_sync; }
  double measured_exposed() const { return step.seconds - step.seconds_no_sync; }
  double error() const { return predicted / step.seconds - 1; }
  // Of the exposed time, as a fraction of the step.
  double exposed_error() const { return (exposed() - measured_exposed()) / step.seconds; }
};

// One network on one link, over the cap of the buckets.
struct LiveCurve {
  std::string link, config;
  LiveLink fitted;
  std::string job;                     // the text of the job, with the first point's cap
  std::vector<LivePrediction> points;  // by ascending cap
  // Points of one layout of buckets in a row count as one; its steps are their medians.
  // How many layouts lie between the fastest predicted and the fastest measured one, with a sign?
  std::int64_t best_distance = 0;
  double best_cap = 0, predicted_best_cap = 0;  // MiB, the first of the layout
  double cost_of_choice = 0;  // the measured step of the predicted best over that of the best, - 1
};

struct LiveValidation {
  std::vector<LiveCurve> curves;  // in the order of the table
};

// Throws ConfigError where a link or a network has no micro-measurements.
LiveValidation ValidateLiveSweep(const LiveSweep& sweep, const ConfigSource& configs);

}  // namespace stepsim
