// How is a plan measured? One task after the other: prepare, warm up, repeat, write; until the
// plan, the budget or the user's patience ends.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/measurement_file.h"
#include "tools/calibrate/peers.h"
#include "tools/calibrate/plan.h"

namespace stepsim::measure {

struct RunOptions {
  double budget_s = std::numeric_limits<double>::infinity();
  std::function<double()> seconds;       // a clock; since any moment
  std::function<bool()> is_interrupted;  // on this rank
};

// Where results and progress go; rank 0 alone writes something.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void OnStart(std::size_t /*number*/, const MeasureTask& /*task*/) {}
  virtual void OnSample() {}  // on every rank: it goes on
  virtual void OnMeasured(const Measured& /*measured*/) {}
  virtual void OnRefused(const MeasureTask& /*task*/, const std::string& /*reason*/) {}
};

enum class RunEnd { kComplete, kBudget, kInterrupted };

struct RunOutcome {
  RunEnd end = RunEnd::kComplete;
  std::size_t measured = 0, refused = 0;
  std::size_t next = 0;  // the first task of the plan that was not tried
};

// Throws MeasureError. REQUIRES: all ranks have the same plan and budget.
RunOutcome RunPlan(const std::vector<PlannedTask>& plan, Backend& backend, Peers& peers,
                   const RunOptions& options, RunListener& listener);

// What was left out, as sentences for the user; "" when the plan is complete.
std::string LeftOutText(const std::vector<PlannedTask>& plan, const RunOutcome& outcome);

}  // namespace stepsim::measure
