// stepsim trace: what a profiler saw, accounted for as a simulated step is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "models/trace/measured_run.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/trace_view.h"

namespace stepsim {
namespace {

struct TraceArguments {
  std::vector<std::string> files, sites, exports;
  std::string step = "median", steps;
  std::optional<std::size_t> skip;
  std::size_t top = 10;
  bool lists_rules = false;
};

enum class TraceFormat { kJson, kCsv, kMarkdown, kTrace };
struct TraceTarget {
  std::string path;  // "-": standard output
  TraceFormat format = TraceFormat::kJson;
};

std::vector<TraceTarget> ParseTargets(const std::vector<std::string>& paths) {
  struct Row {
    std::string suffix;
    TraceFormat format;
  };
  const std::vector<Row> rows = {{".trace.json", TraceFormat::kTrace},
                                 {".trace.json.gz", TraceFormat::kTrace},
                                 {".json", TraceFormat::kJson},
                                 {".csv", TraceFormat::kCsv},
                                 {".md", TraceFormat::kMarkdown}};
  std::vector<std::string> suffixes;
  for (const Row& row : rows) suffixes.push_back(row.suffix);
  std::vector<TraceTarget> targets;
  Diagnostics diagnostics;
  for (const std::string& path : paths) {
    const std::string name = path == "-" ? "-.json" : path;
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& r) { return name.ends_with(r.suffix); });
    if (row == rows.end()) {
      const std::size_t dot = path.rfind('.');
      diagnostics.Add(
          {"--export " + path, 0, 0},
          fmt::format("found another ending, allowed: {}{}", fmt::join(suffixes, ", "),
                      dot == std::string::npos ? "" : DidYouMean(path.substr(dot), suffixes)));
      continue;
    }
    targets.push_back({IsStandardOutput(path) ? "-" : path, row->format});
  }
  diagnostics.ThrowIfAny();
  return targets;
}

class TraceAnswer {
 public:
  TraceAnswer(const TraceArguments& arguments, const Session& session)
      : arguments_(arguments), session_(session) {}

  void Give(const MeasuredRun& run, const MeasuredStep& step,
            const std::vector<TraceTarget>& targets) {
    const RunReporter reporter(run);
    const MeasuredReport report = reporter.Report(step);
    const TextDocument document = TraceDocument(run, reporter, report, arguments_.top);
    bool uses_stdout = false;
    for (const TraceTarget& target : targets) uses_stdout = uses_stdout || target.path == "-";
    std::ostream& text = uses_stdout ? session_.streams.err : session_.streams.out;
    const std::size_t width = uses_stdout ? 0 : session_.streams.terminal_width;
    text << TerminalText(document, width == 0 ? kSummaryWidth : width,
                         !uses_stdout && session_.streams.use_colour);
    for (const TraceTarget& target : targets) {
      if (target.format == TraceFormat::kTrace) {
        WriteTrace(target, {run.graph, run.timeline, report.step});
      } else {
        WriteText(target, TextOf(target.format, run, reporter, report, document));
      }
      if (target.path != "-") text << fmt::format("wrote {}\n", target.path);
    }
  }

 private:
  static std::string TextOf(TraceFormat format, const MeasuredRun& run, const RunReporter& reporter,
                            const MeasuredReport& report, const TextDocument& document) {
    if (format == TraceFormat::kJson) return TraceJson(run, reporter, report);
    if (format == TraceFormat::kMarkdown) return MarkdownText(document);
    return TableCsv(TraceStepsTable(run, reporter, run.steps));
  }

  void WriteText(const TraceTarget& target, const std::string& text) const {
    if (target.path == "-") {
      session_.streams.out << text;
    } else {
      WriteFileAtomically(target.path, text);
    }
  }

  void WriteTrace(const TraceTarget& target, const Result& result) const {
    if (target.path == "-") {
      WriteChromeTrace(result, [&](std::string_view piece) { session_.streams.out << piece; });
    } else {
      WriteFileAtomically(target.path, *FindWriter(target.path), result);
    }
  }

  const TraceArguments& arguments_;
  const Session& session_;
};

void Run(const TraceArguments& arguments, const Session& session) {
  if (arguments.lists_rules) {
    const std::size_t width = session.streams.terminal_width;
    session.streams.out << TerminalText(TraceRulesDocument(), width == 0 ? kSummaryWidth : width,
                                        session.streams.use_colour);
    return;
  }
  if (arguments.files.empty()) {
    throw ConfigError({"FILE", 0, 0},
                      "expected at least one trace: .json, .json.gz or .sqlite, one per rank");
  }
  const std::vector<TraceTarget> targets = ParseTargets(arguments.exports);
  StepChoice choice = ParseStepChoice(arguments.step);
  choice.skip = arguments.skip;
  TraceOptions options;
  options.step_pattern = arguments.steps;
  for (const std::string& text : arguments.sites) options.sites.push_back(ParseSiteOverride(text));
  const MeasuredRun run = ReadTraces(arguments.files, options);
  TraceAnswer(arguments, session).Give(run, ChooseStep(run, choice), targets);
}

}  // namespace

void AddTraceCommand(CLI::App& app, const Session& session) {
  const auto arguments = std::make_shared<TraceArguments>();
  app.add_option("FILE", arguments->files,
                 "traces of one run, one per rank: PyTorch profiler (.json, .json.gz) or Nsight "
                 "Systems (.sqlite)")
      ->type_name("");
  app.add_option("--step", arguments->step,
                 "median (of the steps that are not skipped; default), last, all (from the first "
                 "kernel to the last), or the number of a step")
      ->type_name("N");
  app.add_option("--skip", arguments->skip,
                 "first steps that the median leaves out; default: 1 of three or more")
      ->type_name("N");
  app.add_option("--steps", arguments->steps,
                 "annotations that mark steps, as a regular expression; its first group is the "
                 "number; default: ProfilerStep#N and the like")
      ->type_name("REGEX");
  app.add_option("--site", arguments->sites,
                 "PATTERN=SITE: collectives whose group, name, annotation or kernel fits stand at "
                 "this site; may repeat, the first that fits")
      ->type_name("REGEX=SITE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--list-rules", arguments->lists_rules,
               "the tables by which kernels, collectives and sites are told apart");
  app.add_option("--top", arguments->top, "lines of exposed collectives; default 10")
      ->type_name("N");
  app.add_option("--export", arguments->exports,
                 "write .json (the result of a simulation, and what only a trace has), .csv (all "
                 "steps and ranks), .md, .trace.json or .trace.json.gz (the step alone); - is "
                 "standard output; may repeat")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.callback([arguments, &session] { Run(*arguments, session); });
}

}  // namespace stepsim
