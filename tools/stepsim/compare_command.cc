// stepsim compare: a prediction beside a profile, part by part.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "models/compare/comparison.h"
#include "models/run_step.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

struct CompareOptions {
  std::shared_ptr<JobOptions> job;
  std::vector<std::string> traces, sites, exports;
  std::string step = "median", steps, tolerance;
  std::optional<std::size_t> skip;
};

// What a result's file holds; nullopt: it is none. Its schema stands at the front.
std::optional<std::string> ReadResultFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  constexpr std::size_t kFront = 200;
  std::string text(kFront, '\0');
  file.read(text.data(), kFront);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.find("\"stepsim.result/1\"") == std::string::npos) return std::nullopt;
  text.append(std::istreambuf_iterator<char>(file), {});
  return text;
}

StepSide Predict(const CompareOptions& options, const Session& session) {
  if (options.job->job.ends_with(".json")) {
    if (const std::optional<std::string> result = ReadResultFile(options.job->job)) {
      return ReadResultSide(*result, options.job->job);
    }
  }
  const StepResult step = RunStep(LoadJob(*options.job, session));
  return PredictedSide(step.graph, step.timeline, step.report);
}

// 0.1 and 10% are the same. Unset: infinity.
double ReadTolerance(const std::string& text) {
  if (text.empty()) return HUGE_VAL;
  const bool is_percent = text.back() == '%';
  const std::optional<double> number =
      ParseNumber(text.substr(0, text.size() - (is_percent ? 1 : 0)));
  if (!number || !(*number >= 0)) {
    throw ConfigError({"--tolerance " + text, 0, 0},
                      fmt::format("found '{}', allowed: a share such as 5% or 0.05", text));
  }
  return is_percent ? *number / 100 : *number;
}

std::string ValueText(const ComparedRow& row, double value) {
  if (row.unit == "s") return FormatTime(value);
  if (row.unit == "fraction") return fmt::format("{:.1f}%", value * 100);
  return FormatCount(value);
}

// Without the sign of a zero.
std::string SignedPercent(double fraction) {
  const std::string text = fmt::format("{:+.1f}%", fraction * 100);
  return text == "-0.0%" || text == "+0.0%" ? "0.0%" : text;
}

std::string ErrorText(const ComparedRow& row) {
  if (row.unit == "fraction") {
    return fmt::format("{:+.1f} points", (row.predicted - row.measured) * 100);
  }
  if (row.measured == 0) return row.predicted == 0 ? "" : "-";
  return SignedPercent(row.predicted / row.measured - 1);
}

void Print(const Comparison& c, std::ostream& out) {
  out << fmt::format("predicted  {}\nmeasured   {}\n", c.predicted.name, c.measured.name);
  std::vector<std::vector<std::string>> rows = {
      {"", "predicted", "measured", "error", "of the step"}};
  const double step = ToSeconds(c.measured.account.step);
  for (const ComparedRow& row : c.rows) {
    const bool has_share = row.unit == "s" && step > 0;
    rows.push_back({row.name, ValueText(row, row.predicted), ValueText(row, row.measured),
                    ErrorText(row),
                    has_share ? SignedPercent((row.predicted - row.measured) / step) : ""});
  }
  out << NamedRowsText(std::move(rows), 1);
  for (const std::string& sentence : c.verdict) out << sentence << '\n';
}

ResultTable Table(const Comparison& c) {
  ResultTable table{{"group", "name", "unit", "predicted", "measured"}};
  for (const ComparedRow& row : c.rows) {
    table.rows.push_back({row.group, row.name, row.unit, row.predicted, row.measured});
  }
  return table;
}

// The spread of the steps that were measured says what error can be asked for at all.
std::string SpreadText(const MeasuredRun& run, const MeasuredStep& chosen) {
  std::vector<double> times;
  for (const MeasuredStep& step : run.steps) times.push_back(ToSeconds(step.window.length()));
  if (times.size() < 2) return "";
  const auto [low, high] = std::minmax_element(times.begin(), times.end());
  return fmt::format("step {} of {} measured ones, which took {} to {}\n", chosen.number,
                     times.size(), FormatTime(*low), FormatTime(*high));
}

void Check(const Comparison& c, const std::string& text, double tolerance) {
  if (std::abs(c.step_error()) > tolerance) {
    throw CheckFailed(
        fmt::format("--tolerance {}: the step is {:+.1f}% off", text, c.step_error() * 100));
  }
  if (std::abs(c.exposed_error()) > tolerance) {
    throw CheckFailed(
        fmt::format("--tolerance {}: exposed communication is {:+.1f}% of the step off", text,
                    c.exposed_error() * 100));
  }
}

void Run(const CompareOptions& options, const Session& session) {
  const std::vector<TableTarget> targets = ParseTableTargets(options.exports);
  const double tolerance = ReadTolerance(options.tolerance);
  StepChoice choice = ParseStepChoice(options.step);
  choice.skip = options.skip;
  TraceOptions trace;
  trace.step_pattern = options.steps;
  for (const std::string& text : options.sites) trace.sites.push_back(ParseSiteOverride(text));
  const MeasuredRun run = ReadTraces(options.traces, trace);
  const MeasuredStep step = ChooseStep(run, choice);
  const Comparison comparison =
      Compare(Predict(options, session), MeasuredSide(run, ReportStep(run, step)));
  std::ostream& text = UsesStandardOutput(targets) ? session.streams.err : session.streams.out;
  Print(comparison, text);
  text << SpreadText(run, step);
  for (const std::string& warning : run.warnings) text << fmt::format("warning  {}\n", warning);
  WriteTable(Table(comparison), "stepsim.compare/1",
             {{"predicted", comparison.predicted.name},
              {"measured", comparison.measured.name},
              {"step_error", comparison.step_error()},
              {"exposed_error", comparison.exposed_error()}},
             targets, session.streams.out, &text);
  Check(comparison, options.tolerance, tolerance);
}

}  // namespace

void AddCompareCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<CompareOptions>();
  options->job = AddJobOptions(app);
  app.add_option("traces", options->traces,
                 "profiles of that job: Chrome traces of PyTorch (.json, .json.gz) or Nsight "
                 "Systems' .sqlite, one for each rank")
      ->required()
      ->type_name("TRACE");
  app.add_option("--step", options->step, "which measured step: median, last, all, or its number")
      ->capture_default_str();
  app.add_option("--steps", options->steps, "annotations that mark steps, a regular expression")
      ->type_name("REGEX");
  app.add_option("--skip", options->skip, "first steps to leave out (default: 1 of three or more)")
      ->type_name("N");
  app.add_option("--site", options->sites, "site of the collectives that match; may repeat")
      ->type_name("REGEX=SITE")
      ->expected(1)
      ->take_all();
  app.add_option("--tolerance", options->tolerance,
                 "exit with status 4 when the step, or exposed communication as a share of it, is "
                 "further off than this: 5%")
      ->type_name("SHARE");
  app.add_option("--export", options->exports,
                 "write .json or .csv; - is standard output; may repeat")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
