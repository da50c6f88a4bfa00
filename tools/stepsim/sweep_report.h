// How do `sweep` and `merge` show what a sweep found? The same files, the same summary.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tools/stepsim/command.h"
#include "tools/sweep/results.h"

namespace stepsim {

struct SweepReportOptions {
  std::vector<std::string> exports;
  CurveSpec curve;  // empty parts: as the sweep says
  bool is_quiet = false;
};

// --export, --x, --y, --series, --quiet.
std::shared_ptr<SweepReportOptions> AddSweepReportOptions(CLI::App& app);

// Throws ConfigError when a file's ending is none of sweep_export.h's.
void CheckExports(const SweepReportOptions& options);

// Writes the files, and best points, plateaus and plot as text. Throws ConfigError or
// SimulationError when there is no point to show.
void ReportSweep(const SweepResults& results, const SweepReportOptions& options,
                 const Session& session);

}  // namespace stepsim
