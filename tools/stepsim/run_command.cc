// stepsim run: one job in, a summary and files out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/run_step.h"
#include "models/study/step_condition.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/write_results.h"

namespace stepsim {
namespace {

struct RunOptions {
  std::shared_ptr<JobOptions> job;
  std::vector<std::string> exports;
  std::string trace_view;  // empty: not given
  std::vector<std::string> fail_if;
  bool is_quiet = false;
};

struct ViewRow {
  std::string_view name;
  TraceView view;
};
constexpr std::array kViews = {ViewRow{"both", TraceView::kBoth}, ViewRow{"nccl", TraceView::kNccl},
                               ViewRow{"transfer", TraceView::kTransfer}};

TraceView ViewOf(const std::string& name, const std::vector<ExportTarget>& exports) {
  if (name.empty()) return TraceView::kBoth;
  const bool has_trace = std::any_of(exports.begin(), exports.end(), [](const ExportTarget& e) {
    return e.writer->write == WriteChromeTrace;
  });
  if (!has_trace) {
    Diagnostics diagnostics;
    diagnostics.Add({"--trace-view " + name, 0, 0},
                    "there is no trace to show it, add --export FILE.trace.json");
    diagnostics.ThrowIfAny();
  }
  return std::find_if(kViews.begin(), kViews.end(),
                      [&](const ViewRow& row) { return row.name == name; })
      ->view;
}

// All conditions are read before anything is simulated.
std::vector<StepCondition> ParseConditions(const std::vector<std::string>& texts) {
  std::vector<StepCondition> conditions;
  for (const std::string& text : texts) {
    constexpr std::size_t kShown = 80;
    conditions.emplace_back(text, Place{"--fail-if " + text.substr(0, kShown), 0, 0});
  }
  return conditions;
}

// Once everything is written: a failed check leaves its evidence behind.
void Check(const std::vector<StepCondition>& conditions, const JobSpec& job,
           const StepReport& report) {
  std::vector<std::string> failed;
  for (const StepCondition& condition : conditions) {
    const std::vector<ConditionValue> values = condition.Values(job, &report);
    if (!condition.condition().Holds(values)) continue;
    failed.push_back(fmt::format("--fail-if {}: {}", condition.condition().text(),
                                 condition.condition().DescribeValues(values)));
  }
  if (!failed.empty()) throw CheckFailed(fmt::format("{}", fmt::join(failed, "\nerror: ")));
}

void Run(const RunOptions& options, const Session& session) {
  const std::vector<ExportTarget> exports = ParseExports(options.exports);
  RefuseToReplace(InputFiles(*options.job), options.exports);
  const std::vector<StepCondition> conditions = ParseConditions(options.fail_if);
  const TraceView view = ViewOf(options.trace_view, exports);
  const ResolvedJob job = LoadJob(*options.job, session);
  const StepResult step = RunStep(job);
  WriteResults({step.graph, step.timeline, step.report, view}, exports, options.is_quiet, session);
  Check(conditions, job.job, step.report);
}

}  // namespace

void AddRunCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<RunOptions>();
  options->job = AddJobOptions(app);
  AddExportOption(app, options->exports);
  std::vector<std::string> views;
  for (const ViewRow& row : kViews) views.emplace_back(row.name);
  app.add_option("--trace-view", options->trace_view,
                 "what a trace shows of a collective that waits: nccl, kernels alone, waiting ones "
                 "run, as in a profiler's trace; transfer, the wait and the transfer apart; both, "
                 "kernels and the account on a track of its own (default)")
      ->type_name("VIEW")
      ->check(CLI::IsMember(views));
  app.add_option(
         "--fail-if", options->fail_if,
         "exit with status 4 when this holds, such as 'exposed > 5%', 'mfu < 40%', 'memory > "
         "80GiB', 'step_time > 1.2s', or any metric or field; may repeat")
      ->type_name("CONDITION")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("-q,--quiet", options->is_quiet, "no summary");
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
