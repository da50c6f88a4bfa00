// stepsim explain: why is the step as long as it is, and what can be done?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "models/study/explain.h"
#include "models/study/explain_task.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/explain_view.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

struct ExplainOptions {
  std::shared_ptr<JobOptions> job;
  std::string task;
  std::size_t top = 10;
  std::vector<std::string> exports;
};

enum class ExplainFormat { kJson, kMarkdown };
struct ExplainTarget {
  std::string path;  // "-": standard output
  ExplainFormat format = ExplainFormat::kJson;
};

std::vector<ExplainTarget> ParseTargets(const std::vector<std::string>& paths) {
  const std::vector<std::string> suffixes = {".json", ".md"};
  std::vector<ExplainTarget> targets;
  Diagnostics diagnostics;
  for (const std::string& path : paths) {
    const std::string name = path == "-" ? "-.json" : path;
    const bool is_json = name.ends_with(".json");
    if (!is_json && !name.ends_with(".md")) {
      const std::size_t dot = path.rfind('.');
      diagnostics.Add(
          {"--export " + path, 0, 0},
          fmt::format("found another ending, allowed: {}{}", fmt::join(suffixes, ", "),
                      dot == std::string::npos ? "" : DidYouMean(path.substr(dot), suffixes)));
      continue;
    }
    targets.push_back({IsStandardOutput(path) ? "-" : path,
                       is_json ? ExplainFormat::kJson : ExplainFormat::kMarkdown});
  }
  diagnostics.ThrowIfAny();
  return targets;
}

void Run(const ExplainOptions& options, const Session& session) {
  const std::vector<ExplainTarget> targets = ParseTargets(options.exports);
  RefuseToReplace(InputFiles(*options.job), options.exports);
  const JobVariants variants = LoadVariants(*options.job, session);
  ExplainRequest request;
  request.most_groups = options.task.empty() ? (options.top == 0 ? 10 : options.top) : 0;
  request.wants_actions = options.task.empty();
  const Explanation why = Explain(variants, request);
  std::optional<ExplainedTask> task;
  if (!options.task.empty()) task = ExplainTask(why, variants.base().job, options.task);
  const TextDocument document =
      task ? TaskDocument(why, *task) : ExplanationDocument(why, options.top);

  bool uses_stdout = false;
  for (const ExplainTarget& target : targets) uses_stdout = uses_stdout || target.path == "-";
  std::ostream& text = uses_stdout ? session.streams.err : session.streams.out;
  const std::size_t width = uses_stdout ? 0 : session.streams.terminal_width;
  text << TerminalText(document, width == 0 ? kSummaryWidth : width,
                       !uses_stdout && session.streams.use_colour);
  for (const ExplainTarget& target : targets) {
    const std::string content =
        target.format == ExplainFormat::kJson ? ExplanationJson(why, task) : MarkdownText(document);
    if (target.path == "-") {
      session.streams.out << content;
      continue;
    }
    WriteFileAtomically(target.path, content);
    text << fmt::format("wrote {}\n", target.path);
  }
}

}  // namespace

void AddExplainCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<ExplainOptions>();
  options->job = AddJobOptions(app);
  app.add_option("--task", options->task, "everything about one task or collective, by its name")
      ->type_name("NAME");
  app.add_option("--top", options->top,
                 "lines of collectives, those with the most exposed time; 0: all; default 10")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_option("--export", options->exports,
                 "write .json or .md; - is standard output (-.md for Markdown); may repeat")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
