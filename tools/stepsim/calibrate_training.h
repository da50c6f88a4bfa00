// stepsim calibrate --log: what do the logs of whole trainings say of a cluster?
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/calibration/calibrate.h"
#include "tools/stepsim/command.h"

namespace stepsim {

struct TrainingOptions {
  std::vector<std::string> logs, jobs;  // in pairs
  std::vector<std::string> sets;
  std::string name, output;
  bool is_quiet = false;
};

void CalibrateFromTraining(const TrainingOptions& options, const Session& session);

// The table of fits and the file, for both ways to calibrate (calibrate_command.cc).
std::string CalibrationSummary(const FittedCalibration& calibration,
                               const std::vector<std::string>& notes, std::size_t width,
                               bool use_colour);
void WriteCalibration(const FittedCalibration& calibration, const HardwareSpec& base,
                      const std::vector<std::string>& notes, const std::string& output,
                      bool is_quiet, const Session& session);

}  // namespace stepsim
