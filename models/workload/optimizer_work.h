// What does the optimizer step cost? Memory-bound kernels, one work for each parameter dtype.
//
//   AdamW on fp32 parameters, fused: read p, g, m, v and write p, m, v = 28 bytes per parameter;
//   foreach writes every intermediate: 20 moves = 80 bytes
#pragma once

#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// On what one rank holds: its shard, in the type of storage, where parameters are sharded.
std::vector<ComputeWork> OptimizerWorkOf(const JobSpec& job, const Workload& workload);

// In the order in which dtypes first appear among the parameters; empty for OptimizerKind::kNone.
std::vector<ComputeWork> OptimizerWork(OptimizerKind optimizer, OptimizerImpl impl,
                                       const Workload& workload);

// Tensors of a parameter's size that the optimizer keeps: AdamW 2, SGD 0, with momentum 1.
int OptimizerStates(OptimizerKind optimizer);

}  // namespace stepsim
