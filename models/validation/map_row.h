// What job is a row of published measurements, and what was measured?
//
//   const MappedRow mapped = MapRow(table.Row(0));
//   if (mapped.skipped.empty()) LoadMappedJob(mapped, configs);   // a ResolvedJob
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/spec/config_source.h"
#include "models/spec/job.h"
#include "models/validation/published_row.h"
#include "sim/config/config_node.h"

namespace stepsim {

// How the measured figure stands in the row.
struct MeasuredStep {
  std::optional<double> seconds;  // of a step
  // Else model FLOP/s of a GPU, in this convention (job.mfu_convention's names).
  std::optional<double> flops_per_gpu;
  std::string convention;
  std::optional<double> peak_bytes;
};

struct MappedRow {
  std::string skipped;  // "gpu: not stated"; empty: the job is complete
  ConfigNode job;
  MeasuredStep measured;
  std::vector<std::string> assumptions;
};

MappedRow MapRow(const PublishedRow& row);

// Throws ConfigError when the simulator refuses the job. Keys without effect are taken out first.
ResolvedJob LoadMappedJob(const MappedRow& row, const std::string& name,
                          const ConfigSource& configs);

}  // namespace stepsim
