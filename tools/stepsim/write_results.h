// How does a simulated step leave a command? A summary for people, files for programs: the same for
// every command that has a timeline.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/report/writer.h"
#include "tools/stepsim/command.h"

namespace stepsim {

struct ExportTarget {
  std::string path;  // "-": standard output
  const Writer* writer = nullptr;
};

// --export FILE, repeatable.
void AddExportOption(CLI::App& app, std::vector<std::string>& paths);

// Throws ConfigError for names that no writer knows.
std::vector<ExportTarget> ParseExports(const std::vector<std::string>& paths);

// The summary goes to standard output, or to standard error where a file is written to the former.
void WriteResults(const Result& result, const std::vector<ExportTarget>& exports, bool is_quiet,
                  const Session& session);

}  // namespace stepsim
