// What does one pipeline stage hold? The units of a network dealt out to stages in network order:
// embeddings with the first, last norm, heads and loss with the last.
//
//   StageSplit split = SplitLayers(job, whole, 8);          // 32 layers: 4, 4, 4, ...
//   std::vector<Workload> stages = SplitWorkload(job, whole, split);
#pragma once

#include <cstdint>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// Layers of each stage, in network order.
using StageSplit = std::vector<std::int64_t>;

// As plan.pipeline says: layers_per_stage, or dealt out by `balance`. Layers that do not come out
// even go to the first stages. REQUIRES: a transformer; no fewer layers than stages.
StageSplit SplitLayers(const JobSpec& job, const Workload& workload, std::int64_t stages);

// Each stage with its own units, parameters (in registration order) and reruns. A head that shares
// its matrix with the embedding on another stage has a copy of it, "<name> (tied)".
// REQUIRES: the split's layers are those of the workload.
std::vector<Workload> SplitWorkload(const JobSpec& job, const Workload& workload,
                                    const StageSplit& split);

}  // namespace stepsim
