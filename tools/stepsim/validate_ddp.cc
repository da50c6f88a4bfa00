// stepsim validate ddp: the error of predicted DDP steps against a live bucket sweep, by link and
// network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/study/ddp_live.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

struct Errors {
  std::vector<double> step, exposed;
};

void Add(const LivePrediction& point, Errors* errors) {
  errors->step.push_back(point.error());
  errors->exposed.push_back(std::abs(point.exposed_error()));
}

double Largest(const std::vector<double>& errors) {
  double most = 0;
  for (const double error : errors) most = std::max(most, std::abs(error));
  return most;
}

std::string ErrorCells(const Errors& errors) {
  const ErrorSummary step = Summarize(errors.step);
  return fmt::format("{:>6} {:>7.1f}% {:>6.1f}% {:>6.1f}% {:>+6.1f}% {:>8.1f}% {:>6.1f}%",
                     step.count, step.median * 100, step.p90 * 100, Largest(errors.step) * 100,
                     step.bias * 100, Quantile(errors.exposed, 0.5) * 100,
                     Quantile(errors.exposed, 0.9) * 100);
}

class Report {
 public:
  explicit Report(const LiveValidation& validation) : validation_(validation) {
    for (const LiveCurve& curve : validation.curves) {
      for (const LivePrediction& point : curve.points) Add(point, &all_);
    }
  }

  void Print(std::ostream& out) const {
    out << fmt::format("{:<46} {:>6} {:>8} {:>7} {:>7} {:>7} {:>9} {:>7}  {}\n", "", "points",
                       "median", "p90", "max", "bias", "exposed", "p90",
                       "best cap: measured, predicted, layouts apart, cost");
    out << fmt::format("{:<46} {}\n", "all", ErrorCells(all_));
    std::size_t within = 0;
    for (std::size_t i = 0; i < validation_.curves.size(); ++i) {
      const LiveCurve& curve = validation_.curves[i];
      if (i == 0 || curve.link != validation_.curves[i - 1].link) PrintLink(out, curve.link);
      Errors errors;
      for (const LivePrediction& point : curve.points) Add(point, &errors);
      out << fmt::format("  {:<44} {}  {:g}, {:g}, {:+}, {:.1f}%\n", curve.config,
                         ErrorCells(errors), curve.best_cap, curve.predicted_best_cap,
                         curve.best_distance, curve.cost_of_choice * 100);
      within += std::abs(curve.best_distance) <= 1 ? 1 : 0;
    }
    out << fmt::format(
        "errors of the step are predicted / measured - 1, those of the exposed time fractions of "
        "the step\nbest bucket within one step of the sweep: {} of {} curves\n",
        within, validation_.curves.size());
    PrintBuckets(out);
  }

  double Median() const { return Summarize(all_.step).median; }

  ResultTable Rows() const {
    ResultTable table{{"link", "config", "bucket_cap_mb", "accumulation", "buckets", "measured_us",
                       "predicted_us", "error_pct", "measured_no_comm_us", "predicted_no_comm_us",
                       "measured_exposed_us", "predicted_exposed_us", "exposed_error_pct",
                       "link_latency_us", "link_mb_per_s", "link_residual_pct", "core_demand_pct",
                       "core_wait_us"}};
    for (const LiveCurve& curve : validation_.curves) {
      for (const LivePrediction& p : curve.points) {
        table.rows.push_back(
            {curve.link, curve.config, fmt::format("{:g}", p.step.cap_mb),
             fmt::format("{}", p.step.accumulation), fmt::format("{}", p.buckets),
             MicrosecondsText(p.step.seconds), MicrosecondsText(p.predicted),
             PercentText(p.error()), MicrosecondsText(p.step.seconds_no_sync),
             MicrosecondsText(p.predicted_no_sync), MicrosecondsText(p.measured_exposed()),
             MicrosecondsText(p.exposed()), PercentText(p.exposed_error()),
             MicrosecondsText(ToSeconds(curve.fitted.curve.latency)),
             fmt::format("{:.6g}", curve.fitted.curve.bandwidth.value / 1e6),
             PercentText(curve.fitted.curve.residual), PercentText(curve.fitted.core_demand),
             MicrosecondsText(curve.fitted.core_wait)});
      }
    }
    return table;
  }

 private:
  void PrintLink(std::ostream& out, const std::string& name) const {
    Errors errors;
    const LiveLink* fitted = nullptr;
    for (const LiveCurve& curve : validation_.curves) {
      if (curve.link != name) continue;
      fitted = &curve.fitted;
      for (const LivePrediction& point : curve.points) Add(point, &errors);
    }
    out << fmt::format("{:<46} {}", name, ErrorCells(errors));
    if (!fitted->is_always_full) {
      out << fmt::format(
          "  {:.2f} ms + bytes at {:.0f} MB/s (within {:.1f}%); {:.0f}% of the core "
          "after {:.1f} ms",
          ToSeconds(fitted->curve.latency) * 1e3, fitted->curve.bandwidth.value / 1e6,
          fitted->curve.residual * 100, fitted->core_demand * 100, fitted->core_wait * 1e3);
    }
    out << "\n";
  }

  void PrintBuckets(std::ostream& out) const {
    std::size_t known = 0, equal = 0;
    for (const LiveCurve& curve : validation_.curves) {
      for (const LivePrediction& point : curve.points) {
        known += point.step.buckets > 0 ? 1 : 0;
        equal += point.step.buckets == point.buckets ? 1 : 0;
      }
    }
    out << fmt::format("number of buckets as observed: {} of {} points\n", equal, known);
  }

  const LiveValidation& validation_;
  Errors all_;
};

}  // namespace

void ValidateDdp(const ValidateOptions& options, const Session& session) {
  RefuseFitOptions(options);
  std::vector<CsvTable> tables;
  for (const std::string& path : options.tables) tables.push_back(ParseCsv(ReadTable(path), path));
  const auto configs = session.Configs();
  const LiveValidation validation = ValidateLiveSweep(ReadLiveSweep(tables), *configs);
  std::ostream& out = session.streams.out;
  const Report report(validation);
  report.Print(out);
  if (!options.export_path.empty()) {
    WriteFileAtomically(options.export_path, TableCsv(report.Rows()));
    out << fmt::format("wrote {}\n", options.export_path);
  }
  if (!options.jobs_path.empty()) {
    std::filesystem::create_directories(options.jobs_path);
    for (const LiveCurve& curve : validation.curves) {
      WriteFileAtomically(fmt::format("{}/{}.{}.yaml", options.jobs_path, curve.link, curve.config),
                          curve.job);
    }
    out << fmt::format("wrote {} jobs to {}\n", validation.curves.size(), options.jobs_path);
  }
  CheckMedian(options, report.Median());
}

}  // namespace stepsim
