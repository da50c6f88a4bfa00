// stepsim validate steps: every row of a table of published training steps predicted, the errors by
// source and whatever else is asked for, the ten farthest off with their accounts.
#include "models/validation/validate_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "models/calibration/csv_table.h"
#include "models/spec/remembering_source.h"
#include "models/validation/step_scores.h"
#include "sim/base/diagnostics.h"
#include "sim/config/condition.h"
#include "sim/report/writer.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

constexpr double kGib = 1 << 30;

// ---- Which rows ----

// Columns that --where compares as numbers; the others are texts.
constexpr std::array kNumbers = {"n_layers",     "hidden",
                                 "n_heads",      "n_kv_heads",
                                 "ffn_hidden",   "vocab",
                                 "seq_len",      "n_experts",
                                 "top_k",        "moe_ffn_hidden",
                                 "n_gpus",       "gpus_per_node",
                                 "tp",           "pp",
                                 "vpp",          "cp",
                                 "ep",           "dp",
                                 "micro_batch",  "grad_accum",
                                 "global_batch", "value",
                                 "step_time_s",  "peak_mem_gib"};

bool IsNumber(std::string_view column) {
  return std::find(kNumbers.begin(), kNumbers.end(), column) != kNumbers.end();
}

std::vector<ConditionName> ColumnNames() {
  std::vector<ConditionName> names;
  for (const PublishedColumn& column : PublishedColumns()) {
    ConditionName name{std::string(column.name), {}};
    name.type.kind = IsNumber(column.name) ? ConditionKind::kNumber : ConditionKind::kText;
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::size_t> RowsWhere(const PublishedTable& table, const std::string& where) {
  std::vector<std::size_t> rows(table.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  if (where.empty()) return rows;
  const Condition condition(where, Place{"--where", 0, 0}, ColumnNames());
  const auto is_out = [&](std::size_t row) {
    const PublishedRow published = table.Row(row);
    std::vector<ConditionValue> values;
    for (const ConditionName& name : condition.names()) {
      if (!published.IsFilled(name.name)) {
        values.emplace_back();
      } else if (name.type.kind == ConditionKind::kText) {
        values.emplace_back(std::string(published.Text(name.name)));
      } else if (const auto number = published.Number(name.name)) {
        values.emplace_back(*number);
      } else {
        values.emplace_back();
      }
    }
    return !condition.Holds(values);
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(), is_out), rows.end());
  return rows;
}

void CheckColumns(const std::vector<std::string>& columns) {
  std::vector<std::string> known;
  for (const PublishedColumn& column : PublishedColumns()) known.emplace_back(column.name);
  Diagnostics diagnostics;
  for (const std::string& column : columns) {
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    diagnostics.Add({"--by", 0, 0}, fmt::format("found '{}', allowed: {}{}", column,
                                                fmt::join(known, ", "), DidYouMean(column, known)));
  }
  diagnostics.ThrowIfAny();
}

// ---- What is written ----

std::string SecondsText(double seconds) {
  return seconds > 0 ? fmt::format("{:.6g}", seconds) : std::string();
}

ResultTable RowsTable(const PublishedTable& table, const std::vector<ValidatedStep>& steps) {
  ResultTable result{{"row_id", "source", "status", "reason", "measured_s", "predicted_s",
                      "error_pct", "mfu_predicted", "t_exposed_s", "bubble_s", "compute_s",
                      "contention_s", "peer_wait_s", "host_s", "idle_s", "peak_mem_gib",
                      "peak_mem_measured_gib", "assumptions"}};
  for (const ValidatedStep& step : steps) {
    const PublishedRow row = table.Row(step.row);
    std::vector<Cell> cells(result.columns.size(), std::string());
    cells[0] = std::string(row.id());
    cells[1] = std::string(row.source());
    cells[2] = std::string(ToString(step.status));
    cells[3] = step.reason;
    cells[4] = SecondsText(step.measured_s);
    if (step.status != StepStatus::kSkipped) {
      const StepPrediction& p = step.prediction;
      cells[5] = SecondsText(p.seconds);
      if (step.is_scored()) cells[6] = PercentText(step.Error());
      cells[7] = fmt::format("{:.4f}", p.mfu);
      std::size_t cell = 8;
      for (const double part :
           {p.exposed, p.bubble, p.compute, p.contention, p.peer_wait, p.host, p.idle}) {
        cells[cell++] = fmt::format("{:.6g}", part);
      }
      cells[15] = fmt::format("{:.2f}", p.peak_bytes / kGib);
    }
    if (step.measured_peak_bytes > 0) {
      cells[16] = fmt::format("{:.2f}", step.measured_peak_bytes / kGib);
    }
    cells[17] = fmt::format("{}", fmt::join(step.assumptions, "; "));
    result.rows.push_back(std::move(cells));
  }
  return result;
}

// ---- What people read ----

void PrintScore(std::ostream& out, const std::string& name, const StepScore& score) {
  if (score.errors.count == 0) {
    out << fmt::format("{:<44} {:>5} {:>5} {:>4}  {:>8} {:>8} {:>8}  {:>5} {:>5} {:>5}\n",
                       name.substr(0, 44), 0, score.skipped, score.oom, "-", "-", "-", "-", "-",
                       "-");
    return;
  }
  out << fmt::format(
      "{:<44} {:>5} {:>5} {:>4}  {:>7.1f}% {:>7.1f}% {:>+7.1f}%  {:>4.0f}% {:>4.0f}% {:>4.0f}%\n",
      name.substr(0, 44), score.errors.count, score.skipped, score.oom, score.errors.median * 100,
      score.errors.p90 * 100, score.errors.bias * 100, score.within_5 * 100, score.within_10 * 100,
      score.within_20 * 100);
}

void PrintHeader(std::ostream& out) {
  out << fmt::format("{:<44} {:>5} {:>5} {:>4}  {:>8} {:>8} {:>8}  {:>5} {:>5} {:>5}\n", "", "rows",
                     "left", "oom", "median", "p90", "bias", "<=5%", "<=10%", "<=20%");
}

void PrintSummary(std::ostream& out, const PublishedTable& table, const StepRows& rows,
                  const std::vector<std::string>& columns) {
  PrintHeader(out);
  PrintScore(out, "all", ScoreOf(rows));
  for (const StepGroup& grade : GroupsBy(table, rows, "completeness")) {
    PrintScore(out, "grade " + grade.name, ScoreOf(grade.rows));
  }
  for (const std::string& column : columns) {
    out << fmt::format("\nby {}\n", column);
    for (const StepGroup& group : GroupsBy(table, rows, column)) {
      PrintScore(out, group.name, ScoreOf(group.rows));
    }
  }
}

void PrintAverages(std::ostream& out, const PublishedTable& table, const StepRows& rows) {
  out << "\naveraged over sources\n";
  const auto print = [&](const std::string& name, const StepRows& members) {
    const SourceAverage average = AverageOverSources(table, members);
    if (average.sources == 0) return;
    out << fmt::format(
        "  {:<12} {:>3} sources: median {:.1f}%, p90 {:.1f}%, bias within {:.0f}%: {}\n", name,
        average.sources, average.median * 100, average.p90 * 100, kMostBias * 100,
        average.within_bias);
  };
  print("all", rows);
  for (const StepGroup& grade : GroupsBy(table, rows, "completeness")) {
    print("grade " + grade.name, grade.rows);
  }
  const OrderScore order = OrderOf(table, rows);
  if (order.pairs > 0) {
    out << fmt::format("order of two steps of a source more than 10% apart: {:.2f}% of {} right\n",
                       order.share() * 100, order.pairs);
  }
  const ErrorSummary memory = MemoryErrors(rows);
  if (memory.count > 0) {
    out << fmt::format("peak memory of {} rows: median {:.1f}%, p90 {:.1f}%, bias {:+.1f}%\n",
                       memory.count, memory.median * 100, memory.p90 * 100, memory.bias * 100);
  }
}

void PrintWorst(std::ostream& out, const PublishedTable& table,
                const std::vector<ValidatedStep>& steps) {
  std::vector<std::size_t> scored;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].is_scored()) scored.push_back(i);
  }
  if (scored.empty()) return;
  out << "\nfarthest off (shares of the predicted step):\n";
  const auto error = [&](std::size_t i) { return steps[i].Error(); };
  for (const std::size_t i : FarthestOff(std::move(scored), error, kWorst)) {
    const StepPrediction& p = steps[i].prediction;
    const PublishedRow row = table.Row(steps[i].row);
    const auto share = [&](double part) { return part / p.seconds * 100; };
    out << fmt::format(
        "  {:<8} {} {} on {} {}: measured {:.4g} s, predicted {:.4g} s ({:+.0f}%); compute "
        "{:.0f}%, "
        "contention {:.0f}%, exposed {:.0f}%, peers {:.0f}%, bubble {:.0f}%, host {:.0f}%\n",
        row.id(), row.source(), row.Text("model"), row.Text("n_gpus"), row.Text("gpu"),
        steps[i].measured_s, p.seconds, steps[i].Error() * 100, share(p.compute),
        share(p.contention), share(p.exposed), share(p.peer_wait), share(p.bubble), share(p.host));
  }
}

void PrintSkipped(std::ostream& out, const std::vector<ValidatedStep>& steps) {
  std::map<std::string, std::size_t> reasons;
  for (const ValidatedStep& step : steps) {
    if (step.status == StepStatus::kSkipped)
      ++reasons[step.reason.substr(0, step.reason.find(';'))];
  }
  if (reasons.empty()) return;
  std::vector<std::pair<std::size_t, std::string>> lines;
  for (const auto& [reason, count] : reasons) lines.emplace_back(count, reason);
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  out << "\nskipped:\n";
  for (const auto& [count, reason] : lines) out << fmt::format("  {:>5}  {}\n", count, reason);
}

std::vector<ValidatedStep> ValidateAll(const PublishedTable& table,
                                       const std::vector<std::size_t>& rows,
                                       const ConfigSource& configs, std::size_t jobs) {
  std::vector<ValidatedStep> steps(rows.size());
  if (jobs == 0) jobs = static_cast<std::size_t>(tbb::this_task_arena::max_concurrency());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, jobs);
  tbb::parallel_for(std::size_t{0}, rows.size(),
                    [&](std::size_t i) { steps[i] = ValidateStep(table, rows[i], configs); });
  return steps;
}

}  // namespace

void ValidateSteps(const ValidateOptions& options, const Session& session) {
  CheckColumns(options.by);
  const auto files = session.Configs();
  const RememberingSource configs(*files);
  const PublishedTable table(ParseCsv(ReadTable(options.table()), options.table()));
  const std::vector<std::size_t> rows = RowsWhere(table, options.where);
  const std::vector<ValidatedStep> steps = ValidateAll(table, rows, configs, options.jobs);
  StepRows all;
  for (const ValidatedStep& step : steps) all.push_back(&step);
  std::ostream& out = session.streams.out;
  PrintSummary(out, table, all, options.by);
  PrintAverages(out, table, all);
  PrintWorst(out, table, steps);
  PrintSkipped(out, steps);
  if (!table.unknown_columns().empty()) {
    out << fmt::format("\ncolumns that are not read: {}\n",
                       fmt::join(table.unknown_columns(), ", "));
  }
  if (!options.export_path.empty()) {
    WriteFileAtomically(options.export_path, TableCsv(RowsTable(table, steps)));
    out << fmt::format("wrote {}\n", options.export_path);
  }
}

}  // namespace stepsim
