// What does the user want measured? The command line of stepsim-calibrate.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "tools/calibrate/backends.h"
#include "tools/calibrate/launch_context.h"
#include "tools/calibrate/plan.h"

namespace stepsim::measure {

struct Options {
  std::string backend = "cuda";
  std::string output = "measurements.jsonl";
  bool overwrite = false;
  double budget_s = 0;  // 0: none
  double timeout_s = 120;
  int port = 0;  // 0: one above MASTER_PORT
  bool is_dry_run = false, is_quiet = false;
  std::string job, config_folder;
  std::vector<std::string> sets;
  PlanRequest plan;
};

// Exit statuses: 0 measured, 1 no device or it failed, 2 wrong arguments, 3 interrupted (what was
// measured is in the file).
constexpr int kExitDone = 0, kExitFailed = 1, kExitInput = 2, kExitInterrupted = 3;

struct Program {
  std::ostream& out;
  std::ostream& err;
  bool is_terminal = false;  // err
  std::string executable;
  std::string default_configs;
  std::span<const BackendRow> backends;
  Environment environment;
  std::function<bool()> is_interrupted;
  std::function<void(const std::string&)> die;  // ends the process, whatever its threads do
};

int RunCalibrate(const std::vector<std::string>& arguments, const Program& program);

}  // namespace stepsim::measure
