// stepsim validate collectives: the error of predictions by link class and size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/calibration/collective_validation.h"
#include "models/calibration/error_statistics.h"
#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/validate.h"
#include "tools/stepsim/write_corrections.h"

namespace stepsim {
namespace {

constexpr Bytes kLarge{1 << 20};

struct CalibrationName {
  std::string_view name;
  KnownSizes calibration;
};
constexpr std::array kCalibrations = {
    CalibrationName{"none", KnownSizes::kNone},
    CalibrationName{"two-point", KnownSizes::kTwoPoint},
    CalibrationName{"knots", KnownSizes::kKnots},
};

KnownSizes ParseCalibration(const std::string& text) {
  std::vector<std::string> names;
  for (const CalibrationName& row : kCalibrations) {
    if (row.name == text) return row.calibration;
    names.emplace_back(row.name);
  }
  throw ConfigError(Place{"--calibrate", 0, 0},
                    fmt::format("found '{}', allowed: {}{}", text, fmt::join(names, ", "),
                                DidYouMean(text, names)));
}

class Report {
 public:
  Report(const CollectiveValidation& validation, std::vector<Prediction> model,
         std::vector<Prediction> bare, std::vector<Prediction> naive)
      : validation_(validation),
        model_(std::move(model)),
        bare_(std::move(bare)),
        naive_(std::move(naive)) {}

  void Print(std::ostream& out) const {
    out << fmt::format("{:<22} {:>6} {:>8} {:>8} {:>8} {:>8}   {:>9} {:>9}\n", "class", "points",
                       "systems", "median", "p90", "bias", "bare NCCL", "naive");
    PrintRow(out, "all", [](std::size_t) { return true; });
    const auto is_large = [&](std::size_t i) { return validation_.points()[i].size >= kLarge; };
    PrintRow(out, "< 1 MiB", [&](std::size_t i) { return !is_large(i); });
    PrintRow(out, ">= 1 MiB", is_large);
    for (int c = 0; c < kLinkClasses; ++c) {
      const auto link_class = static_cast<LinkClass>(c);
      const auto is_class = [&](std::size_t i) {
        return validation_.system(i).link_class == link_class;
      };
      const std::string name(ToString(link_class));
      PrintRow(out, name, is_class);
      PrintRow(out, name + " < 1 MiB", [&](std::size_t i) { return is_class(i) && !is_large(i); });
      PrintRow(out, name + " >= 1 MiB", [&](std::size_t i) { return is_class(i) && is_large(i); });
    }
    PrintWorst(out);
    PrintLeftAside(out);
    PrintAssumed(out);
  }

  ResultTable Points() const {
    ResultTable table{{"system_id", "collective", "ranks", "size_bytes", "class", "status",
                       "measured_us", "predicted_us", "error_pct", "algorithm", "protocol"}};
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const MeasuredCollective& point = validation_.points()[i];
      const Prediction& prediction = model_[i];
      std::string predicted, error;
      if (prediction.is_predicted) {
        predicted = MicrosecondsText(prediction.seconds);
        error = PercentText(prediction.Error(point));
      }
      table.rows.push_back({point.system_id, std::string(ToString(point.op)), point.ranks,
                            point.size.value,
                            std::string(ToString(validation_.system(i).link_class)), Status(i),
                            MicrosecondsText(point.seconds), predicted, error, prediction.algorithm,
                            prediction.protocol});
    }
    return table;
  }

 private:
  using Filter = std::function<bool(std::size_t)>;

  bool IsScored(std::size_t i) const {
    return validation_.IsScored(i) && model_[i].is_predicted && !model_[i].is_calibration;
  }

  std::string Status(std::size_t i) const {
    const MeasuredSystem& system = validation_.system(i);
    if (system.status == PointStatus::kNotPredicted) return "not predicted: " + system.reason;
    if (!model_[i].problem.empty()) return "not predicted: " + model_[i].problem;
    if (model_[i].is_calibration) return "calibration";
    if (system.status == PointStatus::kKeptOut) return "kept out: " + system.reason;
    return validation_.IsScored(i) ? "ok" : "kept out: below 1 KiB";
  }

  std::vector<double> Errors(const std::vector<Prediction>& predictions,
                             const Filter& filter) const {
    std::vector<double> errors;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      if (!IsScored(i) || !filter(i) || !predictions[i].is_predicted) continue;
      errors.push_back(predictions[i].Error(validation_.points()[i]));
    }
    return errors;
  }

  void PrintRow(std::ostream& out, const std::string& name, const Filter& filter) const {
    const ErrorSummary summary = Summarize(Errors(model_, filter));
    if (summary.count == 0) return;
    std::set<std::string> systems;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      if (IsScored(i) && filter(i)) systems.insert(validation_.points()[i].system_id);
    }
    out << fmt::format("{:<22} {:>6} {:>8} {:>7.1f}% {:>7.1f}% {:>+7.1f}%   {:>8.1f}% {:>8.1f}%\n",
                       name, summary.count, systems.size(), summary.median * 100, summary.p90 * 100,
                       summary.bias * 100, Summarize(Errors(bare_, filter)).median * 100,
                       Summarize(Errors(naive_, filter)).median * 100);
  }

  void PrintWorst(std::ostream& out) const {
    std::vector<std::size_t> scored;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      if (IsScored(i)) scored.push_back(i);
    }
    const auto error = [&](std::size_t i) { return model_[i].Error(validation_.points()[i]); };
    out << "\nfarthest off:\n";
    for (const std::size_t i : FarthestOff(std::move(scored), error, kWorst)) {
      const MeasuredCollective& point = validation_.points()[i];
      out << fmt::format(
          "  {:<22} {:<14} {:>12} B  measured {:>10.1f} us, predicted {:>10.1f} us "
          "({:+.0f}%) {}/{}\n",
          point.system_id, ToString(point.op), point.size.value, point.seconds * 1e6,
          model_[i].seconds * 1e6, model_[i].Error(point) * 100, model_[i].algorithm,
          model_[i].protocol);
    }
  }

  void PrintLeftAside(std::ostream& out) const {
    std::map<std::pair<std::string, std::string>, std::size_t> aside;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      if (!IsScored(i)) ++aside[{Status(i), validation_.points()[i].system_id}];
    }
    if (!aside.empty()) out << "\nnot scored:\n";
    std::map<std::string, std::string> lines;
    for (const auto& [what, count] : aside) {
      std::string& line = lines[what.first];
      line += fmt::format("{}{} ({})", line.empty() ? "" : ", ", what.second, count);
    }
    for (const auto& [status, line] : lines) out << fmt::format("  {}: {}\n", status, line);
    if (std::none_of(model_.begin(), model_.end(),
                     [&](const Prediction& p) { return IsScored(p.point); })) {
      out << "  so nothing is left to score\n";
    }
  }

  void PrintAssumed(std::ostream& out) const {
    std::map<std::string, std::set<std::string>> systems;  // by what is assumed of them
    for (std::size_t i = 0; i < model_.size(); ++i) {
      for (const std::string& what : validation_.system(i).assumed) {
        systems[what].insert(validation_.points()[i].system_id);
      }
    }
    if (!systems.empty()) out << "\nassumed:\n";
    for (const auto& [what, names] : systems) {
      out << fmt::format("  {}: {}\n", what, fmt::join(names, ", "));
    }
  }

  const CollectiveValidation& validation_;
  std::vector<Prediction> model_, bare_, naive_;
};

}  // namespace

void ValidateCollectives(const ValidateOptions& options, const Session& session) {
  const auto configs = session.Configs();
  ValidationOptions asked;
  asked.calibration = ParseCalibration(options.calibrate);
  if (!options.leave_one_out.empty() && options.leave_one_out != "system") {
    throw ConfigError(Place{"--leave-one-out", 0, 0},
                      fmt::format("found '{}', allowed: system", options.leave_one_out));
  }
  asked.leave_one_out = options.leave_one_out == "system";
  auto points = ReadMeasuredCollectives(ReadTable(options.table()), options.table());
  if (!options.nccl_version.empty()) {
    for (MeasuredCollective& point : points) point.nccl_version = options.nccl_version;
  }
  const CollectiveValidation validation(std::move(points), *configs);
  std::ostream& out = session.streams.out;
  if (!options.fit_path.empty()) {
    // Scored as written, with the digits that the file keeps.
    const std::string yaml = CorrectionsYaml(validation.Fit("nccl"), options.table());
    asked.corrections = LoadCorrectionsText(yaml, options.fit_path);
    WriteFileAtomically(options.fit_path, yaml);
    out << fmt::format("wrote {} ({} rows)\n", options.fit_path, asked.corrections.rows.size());
  } else if (!asked.leave_one_out) {
    asked.corrections = LoadCorrections(options.corrections, *configs);
  }
  const Report report(validation, validation.Predict(asked),
                      validation.Predict({.predictor = Predictor::kBareNccl}),
                      validation.Predict({.predictor = Predictor::kNaiveRing}));
  report.Print(out);
  if (options.export_path.empty()) return;
  WriteFileAtomically(options.export_path, TableCsv(report.Points()));
  out << fmt::format("wrote {}\n", options.export_path);
}

}  // namespace stepsim
