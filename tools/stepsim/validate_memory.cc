// stepsim validate memory: the error of the closed form's peak memory by source, recompute and
// layout of the training states.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/calibration/memory_table.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/report/writer.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

constexpr double kGib = 1 << 30;

std::string GibText(double bytes) { return fmt::format("{:.3f}", bytes / kGib); }

class Report {
 public:
  explicit Report(const MemoryTable& table) : table_(table) {
    for (const MemoryRow& row : table_.rows) {
      estimates_.push_back(EstimateMemory(row.job));
      errors_.push_back(estimates_.back().total / row.bytes - 1);
    }
  }

  void Print(std::ostream& out) const {
    out << fmt::format("{:<34} {:>5} {:>8} {:>8} {:>8}\n", "", "rows", "median", "p90", "bias");
    PrintLine(out, "all", errors_);
    PrintLine(out, "all, equal runs once", DistinctErrors());
    PrintGroups(out, "source", [](const MemoryRow& row) { return row.source; });
    PrintGroups(out, "states", [](const MemoryRow& row) { return row.states; });
    PrintGroups(out, "recompute", [](const MemoryRow& row) { return row.recompute; });
    PrintWorst(out);
    PrintUncomputed(out);
  }

  ErrorSummary Summary() const { return Summarize(errors_); }

  ResultTable Rows() const {
    ResultTable result{{"row_id", "source", "model", "states", "recompute", "status",
                        "measured_gib", "predicted_gib", "error_pct", "stage", "parameters_gib",
                        "gradients_gib", "optimizer_states_gib", "unsharded_parameters_gib",
                        "placeholders_gib", "activations_gib", "working_set_gib", "allocator_gib",
                        "context_gib"}};
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      const MemoryRow& row = table_.rows[i];
      std::vector<Cell> cells = {row.id,
                                 row.source,
                                 row.model,
                                 row.states,
                                 row.recompute,
                                 "ok",
                                 GibText(row.bytes),
                                 GibText(estimates_[i].total),
                                 PercentText(errors_[i]),
                                 estimates_[i].stage};
      for (const auto& [name, bytes] : estimates_[i].parts) cells.emplace_back(GibText(bytes));
      result.rows.push_back(std::move(cells));
    }
    for (const UncomputedMemoryRow& row : table_.uncomputed) {
      std::vector<Cell> cells(result.columns.size(), std::string());
      cells[0] = row.id;
      cells[1] = row.source;
      cells[5] = fmt::format("not stated: {}", fmt::join(row.missing, " "));
      result.rows.push_back(std::move(cells));
    }
    return result;
  }

 private:
  // Publications list a run for several numbers of microbatches that do not change its memory.
  std::vector<double> DistinctErrors() const {
    std::set<std::tuple<std::string, double, double>> seen;
    std::vector<double> errors;
    for (std::size_t i = 0; i < errors_.size(); ++i) {
      const MemoryRow& row = table_.rows[i];
      if (seen.emplace(row.model, row.bytes, estimates_[i].total).second) {
        errors.push_back(errors_[i]);
      }
    }
    return errors;
  }

  void PrintLine(std::ostream& out, const std::string& name,
                 const std::vector<double>& errors) const {
    const ErrorSummary summary = Summarize(errors);
    out << fmt::format("{:<34} {:>5} {:>7.1f}% {:>7.1f}% {:>+7.1f}%\n", name, summary.count,
                       summary.median * 100, summary.p90 * 100, summary.bias * 100);
  }

  void PrintGroups(std::ostream& out, std::string_view title,
                   const std::function<std::string(const MemoryRow&)>& group_of) const {
    std::map<std::string, std::vector<double>> groups;
    for (std::size_t i = 0; i < errors_.size(); ++i) {
      groups[group_of(table_.rows[i])].push_back(errors_[i]);
    }
    for (const auto& [name, errors] : groups) {
      PrintLine(out, fmt::format("{} {}", title, name), errors);
    }
  }

  void PrintWorst(std::ostream& out) const {
    std::vector<std::size_t> all(errors_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    if (all.empty()) return;
    out << "\nfarthest off:\n";
    const auto error_of = [&](std::size_t i) { return errors_[i]; };
    for (const std::size_t i : FarthestOff(std::move(all), error_of, kWorst)) {
      const MemoryRow& row = table_.rows[i];
      const FormulaJob& job = row.job;
      out << fmt::format(
          "  {:<8} {:<14} {} layers, tp {} pp {} cp {} dp {}, microbatch {}: measured {:.1f} GiB, "
          "predicted {:.1f} GiB ({:+.0f}%)\n",
          row.id, row.model, job.model.layers, job.tensor_parallel, job.pipeline_parallel,
          job.context_parallel, job.data_parallel, job.micro_batch, row.bytes / kGib,
          estimates_[i].total / kGib, errors_[i] * 100);
    }
  }

  void PrintUncomputed(std::ostream& out) const {
    if (table_.uncomputed.empty()) return;
    out << "\nnot computed, the publication does not state:\n";
    for (const UncomputedMemoryRow& row : table_.uncomputed) {
      out << fmt::format("  {:<8} {}: {}\n", row.id, row.source, fmt::join(row.missing, ", "));
    }
  }

  const MemoryTable& table_;
  std::vector<MemoryEstimate> estimates_;
  std::vector<double> errors_;  // predicted / measured - 1
};

}  // namespace

void ValidateMemory(const ValidateOptions& options, const Session& session) {
  RefuseFitOptions(options);
  const CsvTable csv = ParseCsv(ReadTable(options.table()), options.table());
  const MemoryTable table = ReadMemoryTable(csv);
  std::ostream& out = session.streams.out;
  const Report report(table);
  report.Print(out);
  if (!options.export_path.empty()) {
    WriteFileAtomically(options.export_path, TableCsv(report.Rows()));
    out << fmt::format("wrote {}\n", options.export_path);
  }
  CheckMedian(options, report.Summary().median);
}

}  // namespace stepsim
