// Where do a prediction and a measured step part? Both are accounted for in the same way, so that
// the difference of the steps is the sum of the differences of their parts, exactly.
//
//   const Comparison c = Compare(PredictedSide(result), MeasuredSideOf(report));
//   c.verdict  -> "The step is 12% longer than predicted: 9% more compute, 3% more host."
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/trace/measured_run.h"
#include "sim/graph/site.h"
#include "sim/graph/work.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// One site's communication in one step of one rank.
struct SiteSide {
  std::size_t calls = 0;
  Duration transfer{};  // resident, without waiting
  Duration waiting{};   // for the last rank to come
  Duration hidden{};    // resident while compute runs
  Duration exposed{};   // resident while none does
};

// What is compared, of either side.
struct StepSide {
  std::string name;  // "simulated", "result.json", "step 3 of rank0.json.gz"
  RankAccount account;
  std::map<Site, SiteSide> sites;
  // Kernels by class, summed up; nullopt: not known.
  std::optional<std::array<Duration, 3>> classes;  // by ComputeClass
  bool knows_waiting = true;                       // one rank alone sees no peer
};

// Of the slowest simulated rank.
StepSide PredictedSide(const TaskGraph& graph, const Timeline& timeline, const StepReport& report);
// Of a file that `stepsim run --export x.json` wrote. Throws ConfigError.
StepSide ReadResultSide(std::string_view json, const std::string& file);
// Of the slowest measured rank.
StepSide MeasuredSide(const MeasuredRun& run, const MeasuredReport& report);

struct ComparedRow {
  std::string group;  // "account", "overlap", "site", "kernels"
  std::string name;   // "compute", "exposed gradient_reduce"
  std::string unit;   // "s", "fraction", "count"
  double predicted = 0;
  double measured = 0;
};

struct Comparison {
  StepSide predicted, measured;
  std::vector<ComparedRow> rows;
  std::vector<std::string> verdict;  // sentences, the most important first

  // (predicted - measured) / measured, of the step.
  double step_error() const;
  // The difference of profiler-exposed communication as a share of the measured step.
  double exposed_error() const;
};

Comparison Compare(StepSide predicted, StepSide measured);

}  // namespace stepsim
