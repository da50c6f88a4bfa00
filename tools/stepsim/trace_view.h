// How is a measured step shown? Text for people, JSON and CSV for programs.
#pragma once

#include <string>
#include <vector>

#include "models/trace/measured_run.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/text_document.h"

namespace stepsim {

TextDocument TraceDocument(const MeasuredRun& run, const RunReporter& reporter,
                           const MeasuredReport& report, std::size_t top);

// The result of a simulation (schema stepsim.result/1) with a member "measured".
std::string TraceJson(const MeasuredRun& run, const RunReporter& reporter,
                      const MeasuredReport& report);

// One row per step and rank; times in seconds.
ResultTable TraceStepsTable(const MeasuredRun& run, const RunReporter& reporter,
                            const std::vector<MeasuredStep>& steps);

// The tables of rules: kernels, sites, collectives.
TextDocument TraceRulesDocument();

}  // namespace stepsim
