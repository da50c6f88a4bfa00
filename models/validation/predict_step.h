// How long does a mapped job take? One simulated step; a step of many micro-batches is carried on
// from two shorter ones, since each further micro-batch adds the same.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/spec/job.h"

namespace stepsim {

// Factors on what the profile says: what two measured steps can tell about a machine.
struct MachineScale {
  double compute = 1;  // of matrix products, attention and memory-bound kernels
  double network = 1;  // of the links inside and between nodes
};

// Seconds and bytes; the parts sum to the step (sim/metrics/accounting.h).
struct StepPrediction {
  double seconds = 0;
  double compute = 0, contention = 0, exposed = 0, peer_wait = 0, bubble = 0, host = 0, idle = 0;
  double communication = 0;  // resident on the reported rank
  double peak_bytes = 0;     // that the fullest GPU must have
  double memory_bytes = 0;   // of the GPU
  double mfu = 0;            // palm
  double gpus = 1;
  std::vector<std::pair<std::string, double>> model_flops;  // of a step, by convention

  bool Fits() const { return peak_bytes <= memory_bytes; }
};

// Throws SimulationError when the step cannot finish.
StepPrediction PredictStep(const ResolvedJob& resolved, const MachineScale& scale = {});

}  // namespace stepsim
