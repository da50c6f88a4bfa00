// stepsim run: one job in, a summary and files out.
#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "sim/base/diagnostics.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

struct RunOptions {
  std::shared_ptr<JobOptions> job;
  std::vector<std::string> exports;
  bool is_quiet = false;
};

struct Export {
  std::string path;  // "-": standard output
  const Writer* writer = nullptr;
};

std::vector<Export> ParseExports(const std::vector<std::string>& paths) {
  std::vector<std::string> suffixes;
  for (const Writer& writer : Writers()) suffixes.emplace_back(writer.suffix);
  std::vector<Export> exports;
  Diagnostics diagnostics;
  for (const std::string& path : paths) {
    const Writer* writer = FindWriter(path == "-" ? "-.json" : path);
    if (writer == nullptr) {
      const std::size_t dot = path.rfind('.');
      diagnostics.Add(
          {"--export " + path, 0, 0},
          fmt::format("no writer for this file name, allowed endings: {}{}",
                      fmt::join(suffixes, ", "),
                      dot == std::string::npos ? "" : DidYouMean(path.substr(dot), suffixes)));
    }
    exports.push_back({IsStandardOutput(path) ? "-" : path, writer});
  }
  diagnostics.ThrowIfAny();
  return exports;
}

void Run(const RunOptions& options, const Session& session) {
  const std::vector<Export> exports = ParseExports(options.exports);
  const StepResult step = RunStep(LoadJob(*options.job, session));
  const Result result{step.graph, step.timeline, step.report};
  bool uses_stdout = false;
  for (const Export& target : exports) uses_stdout = uses_stdout || target.path == "-";
  // Standard output is for one reader: the summary makes way for an exported file.
  std::ostream& text = uses_stdout ? session.streams.err : session.streams.out;
  if (!options.is_quiet) {
    const std::size_t width = uses_stdout ? 0 : session.streams.terminal_width;
    text << TerminalSummary(step.report, !uses_stdout && session.streams.use_colour,
                            width == 0 ? kSummaryWidth : width);
  }
  for (const Export& target : exports) {
    if (target.path == "-") {
      target.writer->write(result, [&](std::string_view piece) { session.streams.out << piece; });
      continue;
    }
    WriteFileAtomically(target.path, *target.writer, result);
    if (!options.is_quiet) text << fmt::format("wrote {}\n", target.path);
  }
}

}  // namespace

void AddRunCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<RunOptions>();
  options->job = AddJobOptions(app);
  app.add_option("--export", options->exports,
                 "write .json, .csv, .md, .trace.json or .trace.json.gz; - is standard output "
                 "(-.md and the like choose another format than .json); may repeat")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("-q,--quiet", options->is_quiet, "no summary");
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
