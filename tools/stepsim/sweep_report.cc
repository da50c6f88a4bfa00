#include "tools/stepsim/sweep_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/result_table.h"
#include "tools/sweep/curve.h"
#include "tools/sweep/sweep_export.h"

namespace stepsim {
namespace {

constexpr std::size_t kUsualWidth = 80;

std::vector<std::string> Suffixes() {
  std::vector<std::string> suffixes;
  for (const SweepFormat& format : SweepFormats()) suffixes.emplace_back(format.suffix);
  return suffixes;
}

const SweepFormat* FormatOf(const std::string& path) {
  return FindSweepFormat(path == "-" ? "-.csv" : path);
}

CurveSpec Chosen(const CurveSpec& own, const CurveSpec& asked) {
  CurveSpec spec = own;
  if (!asked.x.empty()) spec.x = asked.x;
  if (!asked.y.empty()) spec.y = asked.y;
  if (!asked.series.empty()) spec.series = asked.series;
  return spec;
}

[[noreturn]] void FailWithoutPoints(const Curve& curve) {
  if (curve.errors == 0) {
    throw ConfigError(Place{}, fmt::format("where: found no point left, {} were left out by "
                                           "filters, allowed: filters that keep one",
                                           curve.filtered));
  }
  throw ConfigError(
      Place{},
      fmt::format(
          "found no point that can be run, {} are errors{}; the "
          "first: {}",
          curve.errors,
          curve.filtered == 0 ? "" : fmt::format(", {} left out by filters", curve.filtered),
          curve.first_error));
}

void Print(const SweepResults& results, const Curve& curve, std::size_t width, std::ostream& text) {
  const ResultHeader& header = results.header();
  text << fmt::format("{}: {} points", header.sweep, header.points);
  if (curve.errors > 0)
    text << fmt::format(", {} errors (the first: {})", curve.errors, curve.first_error);
  if (curve.filtered > 0) text << fmt::format(", {} left out by filters", curve.filtered);
  text << "\n\n" << DescribeCurve(curve) << '\n' << PlotCurve(curve, width);
}

}  // namespace

std::shared_ptr<SweepReportOptions> AddSweepReportOptions(CLI::App& app) {
  auto options = std::make_shared<SweepReportOptions>();
  app.add_option("--export", options->exports,
                 fmt::format("write {}; - is standard output (-.json and the like choose another "
                             "format than .csv); may repeat",
                             fmt::join(Suffixes(), ", ")))
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--x", options->curve.x, "the axis along which the curve runs")->type_name("PATH");
  app.add_option("--y", options->curve.y, "the metric that is drawn (default step_time_s)")
      ->type_name("METRIC");
  app.add_option("--series", options->curve.series,
                 "axes of which each combination is a curve (default: all others); may repeat")
      ->type_name("PATH")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("-q,--quiet", options->is_quiet, "no progress, no summary");
  return options;
}

void CheckExports(const SweepReportOptions& options) {
  Diagnostics problems;
  for (const std::string& path : options.exports) {
    if (FormatOf(path) != nullptr) continue;
    const std::size_t dot = path.rfind('.');
    problems.Add(
        {"--export " + path, 0, 0},
        fmt::format("no format for this file name, allowed endings: {}{}",
                    fmt::join(Suffixes(), ", "),
                    dot == std::string::npos ? "" : DidYouMean(path.substr(dot), Suffixes())));
  }
  problems.ThrowIfAny();
}

void ReportSweep(const SweepResults& results, const SweepReportOptions& options,
                 const Session& session) {
  const Curve curve = MakeCurve(results, Chosen(results.header().curve, options.curve));
  const bool is_empty = curve.series.empty();
  const bool uses_stdout =
      std::any_of(options.exports.begin(), options.exports.end(),
                  [](const std::string& path) { return IsStandardOutput(path); });
  std::ostream& text = uses_stdout ? session.streams.err : session.streams.out;
  const std::size_t width = session.streams.terminal_width;
  if (!options.is_quiet && !is_empty) Print(results, curve, width == 0 ? kUsualWidth : width, text);
  for (const std::string& path : options.exports) {
    const SweepFormat& format = *FormatOf(path);
    if (is_empty && (format.suffix == ".svg" || format.suffix == ".md"))
      continue;  // nothing to draw
    if (IsStandardOutput(path)) {
      format.write(results, curve, [&](std::string_view piece) { session.streams.out << piece; });
      continue;
    }
    WriteFileAtomically(path, [&](const Sink& sink) { format.write(results, curve, sink); });
    if (!options.is_quiet) text << fmt::format("wrote {}\n", path);
  }
  if (is_empty) FailWithoutPoints(curve);
}

}  // namespace stepsim
