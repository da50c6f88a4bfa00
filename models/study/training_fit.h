// What do measured steps of whole trainings say of a cluster? Two factors over its hardware
// profile, of compute and of the network, under which the simulated steps are as long as the
// measured ones.
//
//   const TrainingFit fit = FitTraining({{job, 1.23}, {other_job, 0.87}});
//   fit.compute = 0.91, fit.network = 0.78, fit.notes
//
// One training tells one factor. Whether a second one tells the other is seen from how much each
// step depends on each factor; what cannot be told stays 1, and the notes say so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/calibration/train_log.h"
#include "models/spec/hardware.h"
#include "models/spec/job.h"

namespace stepsim {

struct MeasuredTraining {
  JobSpec job;
  double seconds = 0;  // of a step
};

struct TrainingFit {
  double compute = 1;  // speed of all kernels over the profile's
  double network = 1;  // bandwidth of the slowest kind of link over the profile's
  bool is_compute_known = false, is_network_known = false;
  std::vector<double> predicted;   // seconds, by training
  std::vector<double> as_profile;  // the same with both factors 1
  std::vector<std::string> notes;
};

// REQUIRES: one training at least, all on the same hardware, seconds > 0. Throws SimulationError
// when a job cannot run.
TrainingFit FitTraining(const std::vector<MeasuredTraining>& trainings);

// A profile under the factors, which end where a fraction becomes 1.
HardwareSpec WithFactors(HardwareSpec hardware, double compute, double network,
                         bool is_network_between_nodes);

// How long a step took by what the log counts: its own seconds first, then rates of steps, tokens
// and samples, FLOPs and MFU last, whose counts are the job's convention. nullopt: nothing that
// fits the job (tokens of a model without tokens).
struct StepOfLog {
  double seconds = 0;
  LogQuantity from = LogQuantity::kStepSeconds;
  std::size_t lines = 0, skipped = 0;
};
std::optional<StepOfLog> StepOf(const TrainLog& log, const JobSpec& job);

}  // namespace stepsim
