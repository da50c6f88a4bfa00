// stepsim validate kernels: the error of matrix products by GPU and element type.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/calibration/kernel_validation.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

std::string_view PassName(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "TN";
    case Pass::kInputGradient:
      return "NN";
    case Pass::kWeightGradient:
      break;
  }
  return "NT";
}

class Report {
 public:
  Report(const KernelValidation& validation, bool left_out)
      : validation_(validation), predictions_(validation.Predict(left_out)) {}

  void Print(std::ostream& out) const {
    out << fmt::format("{:<24} {:<5} {:<8} {:>6} {:>8} {:>8} {:>8}  {}\n", "profile", "dtype",
                       "kind", "points", "median", "p90", "bias", "predicted by");
    for (const KernelGroup& group : validation_.groups()) {
      for (const bool is_grouped : {false, true}) PrintGroup(out, group, is_grouped);
    }
    PrintWorst(out);
    PrintLeftAside(out);
  }

  ResultTable Points() const {
    ResultTable table{{"row", "gpu", "profile", "m", "n", "k", "groups", "layout", "dtype",
                       "status", "measured_us", "predicted_us", "error_pct"}};
    std::vector<std::string> profiles(predictions_.size());
    for (const KernelGroup& group : validation_.groups()) {
      for (const std::size_t i : group.rows) profiles[i] = group.profile;
    }
    for (std::size_t i = 0; i < predictions_.size(); ++i) {
      const KernelRow& row = validation_.rows()[i];
      const ComputeWork& work = row.work;
      std::string status = "no profile", predicted, error;
      if (predictions_[i].has_value()) {
        status = predictions_[i]->is_left_out ? "left out" : "shipped curve";
        predicted = MicrosecondsText(predictions_[i]->seconds);
        error = PercentText(Error(i));
      }
      table.rows.push_back({static_cast<std::int64_t>(row.row + 1), row.gpu, profiles[i], work.m,
                            work.n, work.k, work.batch, std::string(PassName(work.pass)),
                            std::string(ToString(work.dtype)), status,
                            MicrosecondsText(row.seconds), predicted, error});
    }
    return table;
  }

 private:
  double Error(std::size_t i) const {
    return predictions_[i]->seconds / validation_.rows()[i].seconds - 1;
  }

  void PrintGroup(std::ostream& out, const KernelGroup& group, bool is_grouped) const {
    std::vector<double> errors;
    bool left_out = false;
    for (const std::size_t i : group.rows) {
      if ((validation_.rows()[i].work.batch > 1) != is_grouped) continue;
      errors.push_back(Error(i));
      left_out = predictions_[i]->is_left_out;
    }
    if (errors.empty()) return;
    const ErrorSummary summary = Summarize(errors);
    out << fmt::format("{:<24} {:<5} {:<8} {:>6} {:>7.1f}% {:>7.1f}% {:>+7.1f}%  {}\n",
                       group.profile, ToString(group.dtype), is_grouped ? "grouped" : "gemm",
                       summary.count, summary.median * 100, summary.p90 * 100, summary.bias * 100,
                       left_out ? "fits without the shape" : "the shipped curve");
  }

  void PrintWorst(std::ostream& out) const {
    std::vector<std::size_t> predicted;
    for (std::size_t i = 0; i < predictions_.size(); ++i) {
      if (predictions_[i].has_value()) predicted.push_back(i);
    }
    const auto error = [&](std::size_t i) { return Error(i); };
    out << "\nfarthest off:\n";
    for (const std::size_t i : FarthestOff(std::move(predicted), error, kWorst)) {
      const KernelRow& row = validation_.rows()[i];
      const ComputeWork& work = row.work;
      out << fmt::format(
          "  {:<22} {:<4} {} {} x {} x {}{}  measured {:.1f} us, predicted {:.1f} us "
          "({:+.0f}%)\n",
          row.gpu, ToString(work.dtype), PassName(work.pass), work.m, work.n, work.k,
          work.batch > 1 ? fmt::format(" x {} groups", work.batch) : "", row.seconds * 1e6,
          predictions_[i]->seconds * 1e6, Error(i) * 100);
    }
  }

  void PrintLeftAside(std::ostream& out) const {
    const KernelTable& table = validation_.table();
    if (table.no_shape > 0)
      out << fmt::format("\nnot scored: {} rows without a full shape", table.no_shape);
    if (table.other_kinds > 0) {
      out << fmt::format("\nnot scored: {} rows of other kinds than gemm and grouped_gemm",
                         table.other_kinds);
    }
    if (!validation_.unknown_gpus().empty()) {
      out << fmt::format("\nnot scored, no profile has such a GPU: {}",
                         fmt::join(validation_.unknown_gpus(), ", "));
    }
    out << '\n';
  }

  const KernelValidation& validation_;
  std::vector<std::optional<KernelPrediction>> predictions_;
};

// ---- Curves as text, to be copied into a profile ----

std::string CurveYaml(const GemmCurve& curve) {
  std::string tiles;
  for (const GemmTile& tile : curve.tiles) {
    tiles += fmt::format("{}{{m: {}, n: {}, efficiency: {:.3f}}}", tiles.empty() ? "" : ", ",
                         tile.m, tile.n, tile.efficiency);
  }
  std::string yaml = fmt::format(
      "    - dtype: {}\n      efficiency: {:.3f}\n      tail: {:.3f}\n      k_overhead: {:.1f}\n   "
      "   "
      "split_k: {}\n",
      ToString(curve.dtype), curve.efficiency, curve.tail, curve.k_overhead, curve.split_k);
  const auto factor = [&](std::string_view key, double value) {
    if (value != 1) yaml += fmt::format("      {}: {:.3f}\n", key, value);
  };
  factor("input_gradient", curve.input_gradient);
  factor("weight_gradient", curve.weight_gradient);
  factor("fp32_output", curve.fp32_output);
  if (curve.memory_efficiency) factor("memory_efficiency", *curve.memory_efficiency);
  if (curve.latency) {
    yaml += fmt::format("      latency: {:.2f} us\n", ToSeconds(*curve.latency) * 1e6);
  }
  return yaml +
         fmt::format(
             "      tiles: [{}]\n      smallest: {:.0f} MFLOP\n      largest: {:.0f} MFLOP\n      "
             "residual: {:.3f}\n",
             tiles, std::floor(curve.smallest.value / 1e6), std::ceil(curve.largest.value / 1e6),
             curve.residual);
}

std::string FittedCurves(const KernelValidation& validation) {
  std::string yaml;
  for (const KernelGroup& group : validation.groups()) {
    const std::optional<GemmCurve> curve = validation.Fit(group);
    if (!curve.has_value()) continue;
    yaml += fmt::format("# {}: {} rows; with gemm_efficiency: {}\ngpu:\n  gemm:\n{}", group.profile,
                        group.rows.size(), validation.GemmEfficiencyOf(group), CurveYaml(*curve));
  }
  return yaml;
}

}  // namespace

void ValidateKernels(const ValidateOptions& options, const Session& session) {
  if (!options.leave_one_out.empty() && options.leave_one_out != "shape") {
    throw ConfigError(Place{"--leave-one-out", 0, 0},
                      fmt::format("found '{}', allowed: shape", options.leave_one_out));
  }
  const ValidateOptions defaults;
  Diagnostics diagnostics;
  const auto refuse = [&](const char* option, const std::string& value, const std::string& unset) {
    if (value == unset) return;
    diagnostics.Add({option, 0, 0}, "found with kernels, allowed: with collectives");
  };
  refuse("--calibrate", options.calibrate, defaults.calibrate);
  refuse("--corrections", options.corrections, defaults.corrections);
  refuse("--nccl", options.nccl_version, defaults.nccl_version);
  diagnostics.ThrowIfAny();
  const auto configs = session.Configs();
  const CsvTable csv = ParseCsv(ReadTable(options.table()), options.table());
  const KernelValidation validation(ReadKernelTable(csv), *configs);
  std::ostream& out = session.streams.out;
  if (!options.fit_path.empty()) {
    WriteFileAtomically(options.fit_path, FittedCurves(validation));
    out << fmt::format("wrote {}\n", options.fit_path);
  }
  const Report report(validation, options.leave_one_out == "shape");
  report.Print(out);
  if (options.export_path.empty()) return;
  WriteFileAtomically(options.export_path, TableCsv(report.Points()));
  out << fmt::format("wrote {}\n", options.export_path);
}

}  // namespace stepsim
