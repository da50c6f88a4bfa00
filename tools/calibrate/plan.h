// What is measured, and what first? The useful and coarse before the fine, so that a budget may cut
// the list anywhere: level 0 alone gives a rough calibration, each level fills the gaps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/task.h"

namespace stepsim::measure {

struct PlanRequest {
  std::vector<std::string> kinds;   // of TaskKinds(); empty: all
  std::vector<std::string> dtypes;  // of GEMMs; empty: all that the device has
  std::vector<GemmTask> gemms;      // instead of the grid, the most important first
  std::vector<AttentionTask> attention;
  std::int64_t min_bytes = 0;  // of collectives; 0: the default
  std::int64_t max_bytes = 0;
  std::vector<int> max_ctas;  // limits to try beside the library's choice
  std::vector<int> load_sms;  // of the copy beside a GEMM; empty: 2, 4, 8, ... up to half of them
};

struct PlannedTask {
  MeasureTask task;
  int level = 0;
};

std::vector<PlannedTask> MakePlan(const PlanRequest& request, const DeviceLimits& limits,
                                  int ranks);

// In which round each of `count` points is measured: both ends, the middle, the quarters, ...
std::vector<int> CoarseToFine(std::size_t count);

}  // namespace stepsim::measure
