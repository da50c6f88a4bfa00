// What does DeepSpeed's step() do before the optimizer, on the partition that the rank owns?
//
//   fp16: overflow check -> all_reduce of one element -> the host reads it
//   always: norm -> all_reduce of one element -> gradients to the master's type, unscaled
#pragma once

#include <cstdint>

#include "models/parallel/rank_program.h"
#include "models/spec/job.h"

namespace stepsim {

struct ZeroStep {
  const JobSpec& job;
  GroupId group{};
  StreamId communicator = kNoId<StreamId>;  // where gathers and reductions share one
  std::int64_t elements = 0;                // of the rank's partition
  std::int64_t tensors = 0;                 // that it holds parts of
  std::int64_t at_a_time = 0;               // elements that the optimizer updates
};

// Nothing without an optimizer.
void LaunchBeforeOptimizer(RankProgram& rank, const ZeroStep& step);
// The gradients of the master's type are dropped.
void EndOptimizer(RankProgram& rank, const ZeroStep& step);

// What the reductions do around the collective, on its stream.
ComputeWork DivideWork(DType kept, DType sent, std::int64_t elements, bool flattens);

}  // namespace stepsim
