// What does a question about a machine alone say, without a model or a plan: the hardware, how much
// of it, and how its collectives are priced?
//
//   LoadCluster({{"hardware", MakeText("dgx-h100"), {"--hardware dgx-h100"}},
//                {"nodes", MakePlain("2"), {"--nodes 2"}}}, source)
//
// The keys and their rules are a job's: `hardware`, `network`, `calibration`, `nodes`,
// `gpus_per_node`, `collectives` and what lies below them.
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec/collective_spec.h"
#include "models/spec/config_source.h"
#include "models/spec/expand_job.h"
#include "models/spec/hardware.h"
#include "sim/config/value_origin.h"

namespace stepsim {

struct ClusterSpec {
  HardwareSpec hardware;  // with the calibration's values over it
  CalibrationSpec calibration;
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  CollectiveModelSpec collectives;
  std::vector<ValueOrigin> origins;  // every field, in document order

  std::int64_t ranks() const { return nodes * gpus_per_node; }
};

// Throws ConfigError with every problem at once, those of `diagnostics` first.
ClusterSpec LoadCluster(const std::vector<Setting>& settings, const ConfigSource& source,
                        Diagnostics diagnostics = {});

}  // namespace stepsim
