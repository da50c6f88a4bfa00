#include "tools/stepsim/calibrate_training.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "models/calibration/train_log.h"
#include "models/spec/load_job.h"
#include "models/study/training_fit.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

struct Trainings {
  std::vector<MeasuredTraining> measured;
  std::vector<FitRecord> records;
};

Trainings ReadTrainings(const TrainingOptions& options, const Session& session) {
  Trainings all;
  Diagnostics problems;
  const auto configs = session.Configs();
  for (std::size_t i = 0; i < options.logs.size(); ++i) {
    try {
      const TrainLog log = ReadTrainLog(ReadTable(options.logs[i]), options.logs[i]);
      JobSpec job = LoadJob(options.jobs[i], options.sets, *configs).job;
      const auto step = StepOf(log, job);
      if (!step) {
        problems.Add({options.logs[i], 0, 0},
                     fmt::format("found nothing in this log of {} that tells a step of {}",
                                 log.dialect, job.name));
        continue;
      }
      FitRecord record;
      record.what = fmt::format("{} ({}, {})", job.name, log.dialect, ToString(step->from));
      record.points = static_cast<std::int64_t>(step->lines);
      record.note = fmt::format("first {} lines left out", step->skipped);
      all.records.push_back(std::move(record));
      all.measured.push_back({std::move(job), step->seconds});
    } catch (const ConfigError& error) {
      for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
    }
  }
  for (const MeasuredTraining& t : all.measured) {
    if (t.job.hardware.name == all.measured.front().job.hardware.name) continue;
    problems.Add({"--job", 0, 0},
                 fmt::format("found hardware {} and {}, allowed: one for all jobs",
                             all.measured.front().job.hardware.name, t.job.hardware.name));
  }
  problems.ThrowIfAny();
  return all;
}

}  // namespace

void CalibrateFromTraining(const TrainingOptions& options, const Session& session) {
  Trainings trainings = ReadTrainings(options, session);
  const TrainingFit fit = FitTraining(trainings.measured);
  const HardwareSpec& base = trainings.measured.front().job.hardware;
  bool is_between_nodes = false;
  for (const MeasuredTraining& t : trainings.measured) {
    is_between_nodes = is_between_nodes || t.job.nodes > 1;
  }
  FittedCalibration calibration;
  calibration.hardware = WithFactors(base, fit.compute, fit.network, is_between_nodes);
  CalibrationSpec& about = calibration.about;
  about.name = options.name;
  about.fitted_over = base.name;
  about.files = options.logs;
  about.description = fmt::format("steps of {} training{}", trainings.measured.size(),
                                  trainings.measured.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < trainings.measured.size(); ++i) {
    FitRecord& record = trainings.records[i];
    const double seconds = trainings.measured[i].seconds;
    record.value = fmt::format("measured {}, predicted {} (by the profile {})", FormatTime(seconds),
                               FormatTime(fit.predicted[i]), FormatTime(fit.as_profile[i]));
    record.residual = record.residual_p90 = std::abs(fit.predicted[i] / seconds - 1);
  }
  about.fits = std::move(trainings.records);
  const auto add_factor = [&](const char* what, double value, bool is_known) {
    FitRecord record;
    record.what = what;
    record.value = fmt::format("{:.3f} of the profile's", value);
    record.points = is_known ? static_cast<std::int64_t>(trainings.measured.size()) : 0;
    if (!is_known) record.note = "cannot be told";
    about.fits.push_back(std::move(record));
  };
  add_factor("compute", fit.compute, fit.is_compute_known);
  add_factor(is_between_nodes ? "network between nodes" : "links inside the node", fit.network,
             fit.is_network_known);
  WriteCalibration(calibration, base, fit.notes, options.output, options.is_quiet, session);
}

}  // namespace stepsim
