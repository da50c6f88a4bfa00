// Which numbers does a result have? One row per scalar metric: `stepsim list metrics`, `describe`,
// the CSV columns and the tests read this table. To add a metric: one row.
#pragma once

#include <span>
#include <string_view>

#include "sim/metrics/step_report.h"

namespace stepsim {

struct Metric {
  std::string_view name;  // "step_time_s": the unit is part of the name
  std::string_view unit;  // "s", "bytes", "fraction", "tokens/s", "TFLOP/s", "count"
  std::string_view doc;
  double (*value)(const StepReport&);
  bool more_is_better = false;
};

std::span<const Metric> Metrics();

}  // namespace stepsim
