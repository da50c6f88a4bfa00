#include "tools/stepsim/write_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <string_view>

#include "sim/base/diagnostics.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {

void AddExportOption(CLI::App& app, std::vector<std::string>& paths) {
  app.add_option("--export", paths,
                 "write .json, .csv, .md, .trace.json or .trace.json.gz; - is standard output "
                 "(-.md and the like choose another format than .json); may repeat")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

std::vector<ExportTarget> ParseExports(const std::vector<std::string>& paths) {
  std::vector<std::string> suffixes;
  for (const Writer& writer : Writers()) suffixes.emplace_back(writer.suffix);
  std::vector<ExportTarget> exports;
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

void WriteResults(const Result& result, const std::vector<ExportTarget>& exports, bool is_quiet,
                  const Session& session) {
  const bool uses_stdout = std::any_of(exports.begin(), exports.end(),
                                       [](const ExportTarget& e) { return e.path == "-"; });
  // Standard output is for one reader: the summary makes way for an exported file.
  std::ostream& text = uses_stdout ? session.streams.err : session.streams.out;
  if (!is_quiet) {
    const std::size_t width = uses_stdout ? 0 : session.streams.terminal_width;
    text << TerminalSummary(result.report, !uses_stdout && session.streams.use_colour,
                            width == 0 ? kSummaryWidth : width);
  }
  for (const ExportTarget& target : exports) {
    if (target.path == "-") {
      target.writer->write(result, [&](std::string_view piece) { session.streams.out << piece; });
      continue;
    }
    WriteFileAtomically(target.path, *target.writer, result);
    if (!is_quiet) text << fmt::format("wrote {}\n", target.path);
  }
}

}  // namespace stepsim
