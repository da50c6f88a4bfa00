// Which points does a sweep have, and what is kept of each?
//
//   name: bucket size on two networks
//   job: ../jobs/llama-3.2-3b_ddp_16xa100.yaml   # a name, a file (from here), or a mapping
//   set: {batch.micro_batch_size: 2}             # for every point
//   axes:                                        # every combination; the last axis runs fastest
//     network: [ethernet-25g, ethernet-100g]
//     plan.ddp.bucket_cap_mb: 1,5,25:400:x2
//   zip:                                         # lists of one length, taken together
//     - {nodes: [1, 2, 4], batch.gradient_accumulation_steps: [4, 2, 1]}
//   where: [nodes <= 2 or memory < 70 GiB]       # sim/config/condition.h
//   metrics: [step_time_s, mfu_palm]             # default: all
//   curve: {x: plan.ddp.bucket_cap_mb, y: step_time_s, series: network}
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/study/step_condition.h"
#include "models/study/variants.h"
#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"
#include "sim/config/field_table.h"
#include "sim/metrics/metric_table.h"
#include "tools/sweep/axis.h"

namespace stepsim {

// What is drawn; empty: chosen from the axes.
struct CurveSpec {
  std::string x;
  std::string y;
  std::vector<std::string> series;
};

// The scalar part of a sweep's file; the rest are trees.
struct SweepSpec {
  std::string name;
  std::vector<std::string> where;
  std::vector<std::string> metrics;
  CurveSpec curve;
};
const StructTable<CurveSpec>& SweepCurveFields();
const StructTable<SweepSpec>& SweepFields();  // configs/sweeps/*.yaml
std::string SweepSchema();                    // JSON Schema for editors

// Axes that advance together: one, or those of a zip.
struct AxisGroup {
  std::vector<Axis> axes;
  std::size_t size() const { return axes.front().values.size(); }
};

struct Sweep {
  std::string name;
  ConfigNode job;  // null: given otherwise
  Changes set;     // "path=value"
  std::vector<AxisGroup> groups;
  std::vector<StepCondition> where;
  std::vector<Metric> metrics;
  CurveSpec curve;
  std::string text;  // all of it, for the hash

  std::uint64_t points() const;  // before filters, at most kMostPoints
  std::vector<const Axis*> axes() const;
};

// A sweep's file. Throws ConfigError with every problem.
Sweep ReadSweep(const ConfigNode& root, const std::string& file_name, Diagnostics problems);

// Of the command line.
struct SweepOptions {
  std::vector<std::string> vary;  // "path=values"
  std::vector<std::string> where;
  std::vector<std::string> metrics;
  CurveSpec curve;
};
// Lays the options over a sweep's file, or makes a sweep of them alone. Throws ConfigError.
Sweep WithOptions(Sweep sweep, const SweepOptions& options);

}  // namespace stepsim
