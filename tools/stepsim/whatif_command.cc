// stepsim whatif: one line for each change, each simulated.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "models/study/target.h"
#include "models/study/try_step.h"
#include "models/study/whatif.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/metrics/metric_table.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

struct WhatIfOptions {
  std::shared_ptr<JobOptions> job;
  std::vector<std::string> base;  // settings of the job itself
  std::vector<std::string> exports;
};

// The batch or the number of GPUs differs: the step's time alone says little.
bool ComparesPerToken(const StepReport& base, const std::vector<WhatIf>& lines) {
  for (const WhatIf& line : lines) {
    if (!line.report) continue;
    const StepContext& context = line.report->context;
    if (context.samples_per_step != base.context.samples_per_step ||
        context.tokens_per_step != base.context.tokens_per_step ||
        context.gpus != base.context.gpus) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> Row(const std::string& name, const StepReport& report,
                             const StepReport& base, bool is_per_token) {
  std::vector<std::string> row = {name, FormatTime(report.account().step),
                                  DeltaText(report.step_time_s(), base.step_time_s())};
  if (is_per_token) row.push_back(DeltaText(GpuSecondsPerToken(report), GpuSecondsPerToken(base)));
  const double memory = static_cast<double>(report.memory.total.value);
  row.push_back(FormatValue(TargetKind::kExposed, ValueOf(TargetKind::kExposed, report)));
  row.push_back(FormatValue(TargetKind::kMfu, ValueOf(TargetKind::kMfu, report)));
  const bool fits = MemoryWarning(report).empty();
  row.push_back(memory > 0 ? FormatMemory(report.memory.total) + (fits ? "" : " (does not fit)")
                           : "-");
  return row;
}

void Print(const StepReport& base, Duration ceiling, const std::vector<WhatIf>& lines,
           std::ostream& out) {
  const bool is_per_token = ComparesPerToken(base, lines);
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"change", "step", "delta"});
  if (is_per_token) rows.front().push_back("GPU time per token");
  for (const char* column : {"exposed", "MFU", "memory"}) rows.front().push_back(column);
  rows.push_back(Row("(as it is)", base, base, is_per_token));
  for (const WhatIf& line : lines) {
    if (line.report) rows.push_back(Row(line.text, *line.report, base, is_per_token));
  }
  out << base.context.job << '\n' << NamedRowsText(std::move(rows), 1);
  for (const WhatIf& line : lines) {
    if (!line.report) out << fmt::format("{}: not possible, see below\n", line.text);
    if (!line.report) continue;
    for (const std::string& warning : line.report->context.warnings) {
      const auto& known = base.context.warnings;
      if (std::count(known.begin(), known.end(), warning) > 0) continue;
      out << fmt::format("warning  {}: {}\n", line.text, warning);
    }
  }
  for (const std::string& warning : base.context.warnings) {
    out << fmt::format("warning  {}\n", warning);
  }
  out << fmt::format("ceiling  {} ({}): without any communication, as the job is\n",
                     FormatTime(ceiling), DeltaText(ToSeconds(ceiling), base.step_time_s()));
}

ResultTable Table(const StepReport& base, const std::vector<WhatIf>& lines) {
  ResultTable table{{"change"}};
  for (const Metric& metric : Metrics()) table.columns.emplace_back(metric.name);
  table.columns.emplace_back("error");
  const auto add = [&](const std::string& name, const StepReport* report,
                       const std::string& error) {
    std::vector<Cell> row = {name};
    for (const Metric& metric : Metrics()) {
      row.push_back(report != nullptr ? Cell(metric.value(*report)) : Cell(std::string()));
    }
    row.emplace_back(error);
    table.rows.push_back(std::move(row));
  };
  add("", &base, "");
  for (const WhatIf& line : lines)
    add(line.text, line.report ? &*line.report : nullptr, line.error);
  return table;
}

// After everything else was shown: what could not be.
void ThrowErrors(const std::vector<WhatIf>& lines) {
  std::vector<Diagnostic> problems;
  bool is_input = false;
  for (const WhatIf& line : lines) {
    if (line.error.empty()) continue;
    is_input = is_input || line.is_input_error;
    problems.push_back({{}, line.is_input_error ? line.error : line.text + ": " + line.error});
  }
  if (problems.empty()) return;
  ConfigError all(std::move(problems));
  if (is_input) throw all;
  throw SimulationError(all.what());
}

void Run(const WhatIfOptions& options, const Session& session) {
  const std::vector<TableTarget> targets = ParseTableTargets(options.exports);
  RefuseToReplace(InputFiles(*options.job), options.exports);
  JobOptions job = *options.job;
  const std::vector<std::string> texts = std::exchange(job.sets, options.base);
  if (texts.empty()) {
    throw ConfigError(Place{},
                      "found no change, allowed: --set PATH=VALUE, which may repeat; "
                      "PATH=VALUE+PATH=VALUE is two together");
  }
  const JobVariants variants = LoadVariants(job, session);
  const StepReport base = TryStep(variants.base());
  std::vector<WhatIf> lines;
  for (const std::string& text : texts) lines.push_back(TryWhatIf(variants, text));
  std::ostream& text = UsesStandardOutput(targets) ? session.streams.err : session.streams.out;
  Print(base, StepWithoutCommunication(variants.base().job), lines, text);
  WriteTable(Table(base, lines), "stepsim.whatif/1", {{"job", base.context.job}}, targets,
             session.streams.out, &text);
  ThrowErrors(lines);
}

}  // namespace

void AddWhatIfCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<WhatIfOptions>();
  options->job = AddJobOptions(app);
  app.get_option("--set")->description(
      "a change to try, PATH=VALUE+PATH=VALUE for several together; one line each; may repeat");
  app.add_option("--base", options->base,
                 "override one field of the job itself, for all lines; may repeat")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--export", options->exports,
                 "write every metric of every line as .csv or .json; - is standard output")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
