// The summary as tables, to paste into a ticket.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/metrics/metric_table.h"
#include "sim/report/summary_facts.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

constexpr std::size_t kListedCollectives = 10;

// Text that stays inside its cell and is shown as it is.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    switch (c) {
      case '|':
        cell += "\\|";
        break;
      case '<':
        cell += "&lt;";
        break;
      case '\n':
        cell += ' ';
        break;
      case '\r':
        break;
      default:
        cell += c;
    }
  }
  return cell;
}

using Cells = std::vector<std::string_view>;

void AddRow(std::string* text, const Cells& cells) {
  *text += '|';
  for (const std::string_view cell : cells) *text += fmt::format(" {} |", Cell(cell));
  *text += '\n';
}

// `alignment` holds one letter per column: l or r.
void AddHeader(std::string* text, std::string_view title, std::string_view alignment,
               const Cells& columns) {
  if (!title.empty()) *text += fmt::format("\n### {}\n\n", title);
  AddRow(text, columns);
  *text += '|';
  for (const char column : alignment) *text += column == 'r' ? " ---: |" : " --- |";
  *text += '\n';
}

void AddStep(const StepReport& report, std::string* text) {
  const RankAccount& account = report.account();
  AddHeader(text, "", "lrr", {"step", FormatTime(account.step), "100.0%"});
  for (const StepPart& part : StepParts(account)) {
    AddRow(text, {part.name, FormatTime(part.time), FormatShare(part.time, account.step)});
    if (part.name != "exposed") continue;
    for (const StepPart& site : ExposedSites(account)) {
      AddRow(text, {fmt::format("- {}", site.name), FormatTime(site.time),
                    FormatShare(site.time, account.step)});
    }
  }
  const std::string remark = RankRemark(report);
  if (!remark.empty()) *text += fmt::format("\nReported: {}.\n", remark);
}

void AddEfficiency(const StepReport& report, std::string* text) {
  const StepContext& context = report.context;
  AddHeader(text, "Efficiency", "lr", {"metric", "value"});
  for (const auto& [convention, flops] : context.model_flops) {
    AddRow(text, {fmt::format("MFU ({}, peak {} dense {})", convention,
                              FormatFlopRate(context.peak.value), ToString(context.peak_dtype)),
                  FormatShare(Mfu(report, convention))});
  }
  AddRow(text, {"HFU (recomputation included)", FormatShare(Hfu(report))});
  for (const Metric& metric : Metrics()) {
    const double value = metric.value(report);
    const bool is_rate = metric.unit.ends_with("/s");
    if (!is_rate || value == 0) continue;
    const std::string_view per_gpu = metric.name.ends_with("per_gpu") ? " per GPU" : "";
    AddRow(text, {fmt::format("{}{}", metric.unit, per_gpu), FormatRate(value)});
  }
  AddRow(text, {"communication", FormatTime(report.account().communication)});
  AddRow(text, {"hidden share of communication", FormatShare(report.account().overlap_fraction())});
}

void AddMemory(const StepReport& report, std::string* text) {
  if (report.memory.total.value <= 0) return;
  const Bytes capacity = report.context.gpu_memory;
  const bool is_too_large = capacity.value > 0 && report.memory.total > capacity;
  AddHeader(text, "Peak memory per GPU", "lr", {"category", "size"});
  for (const auto& [category, bytes] : LargestMemory(report.memory)) {
    AddRow(text, {category, FormatMemory(bytes)});
  }
  AddRow(text,
         {is_too_large ? "**total: does not fit**" : "total", FormatMemory(report.memory.total)});
  if (capacity.value > 0) AddRow(text, {"capacity", FormatMemory(capacity)});
}

void AddStages(const StepReport& report, std::string* text) {
  const StageTable table = StagesOf(report);
  if (table.rows.empty()) return;
  AddHeader(text, "Pipeline stages", "l" + std::string(table.columns.size() - 1, 'r'),
            Cells(table.columns.begin(), table.columns.end()));
  for (const auto& row : table.rows) AddRow(text, Cells(row.begin(), row.end()));
  const std::string form = ClosedFormBubble(report);
  if (!form.empty()) *text += fmt::format("\n{}.\n", Cell(form));
}

void AddCollectives(const StepReport& report, std::string* text) {
  const auto largest = LargestExposed(report, kListedCollectives);
  if (largest.empty()) return;
  AddHeader(text, "Largest exposed collectives", "lrrrrrlrll",
            {"collective", "exposed", "if removed", "hidden", "slack", "size", "algorithm", "ranks",
             "site", "cause"});
  for (const CollectiveReport* c : largest) {
    AddRow(text, {CollectiveTitle(report, *c), FormatTime(c->exposed_transfer()),
                  c->saved ? FormatReduction(*c->saved, report.account().step) : "",
                  FormatTime(c->hidden), FormatTime(c->slack), FormatBytes(c->bytes), c->algorithm,
                  fmt::format("{}", c->group_size), ToString(c->site), c->cause});
  }
}

void AddMicrosteps(const StepReport& report, std::string* text) {
  if (report.microsteps.size() < 2) return;
  AddHeader(text, "Micro-steps", "rlrrr", {"micro-step", "reduces", "time", "compute", "exposed"});
  for (const MicrostepReport& m : report.microsteps) {
    AddRow(text, {fmt::format("{}", m.microstep + 1), m.is_reducing ? "yes" : "no",
                  FormatTime(m.account.step), FormatTime(m.account.compute),
                  FormatTime(m.account.exposed_total())});
  }
}

void AddRemarks(const StepContext& context, std::string* text) {
  if (!context.warnings.empty()) *text += "\n### Warnings\n\n";
  for (const std::string& warning : context.warnings) *text += fmt::format("- {}\n", Cell(warning));
  for (const std::string& note : context.notes) *text += fmt::format("\n{}\n", Cell(note));
  if (!context.confidence.empty())
    *text += fmt::format("\nConfidence: {}\n", Cell(context.confidence));
  if (context.assumptions.empty()) return;
  // Dozens of rows: folded, where the reader can.
  *text +=
      fmt::format("\n<details><summary>Assumptions ({})</summary>\n\n", context.assumptions.size());
  AddHeader(text, "", "lll", {"field", "value", "origin"});
  for (const StepContext::Assumption& a : context.assumptions) {
    AddRow(text, {a.field, a.value, a.origin});
  }
  *text += "\n</details>\n";
}

}  // namespace

void WriteMarkdown(const Result& result, const Sink& sink) {
  const StepReport& report = result.report;
  std::string text = fmt::format("## {}\n\n", Cell(report.context.job));
  AddStep(report, &text);
  AddEfficiency(report, &text);
  AddMemory(report, &text);
  AddStages(report, &text);
  AddCollectives(report, &text);
  AddMicrosteps(report, &text);
  AddRemarks(report.context, &text);
  sink(text);
}

}  // namespace stepsim
