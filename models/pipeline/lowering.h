// When are parameters gathered and activations sent? PyTorch's lowering of a schedule of compute
// actions (schedules of torch.distributed.pipelining with several stages per rank):
//
//   0F0 0F1 0B0 0B1  ->  0UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD
//                        0RESHARD
//
// A rank gathers the parameters of the next three distinct stages that it will need and frees the
// others; reduces a stage's gradients right after its last weight gradient; sends right after the
// action that makes the tensor, at which moment the receiver posts its receive. Neighbouring stages
// on one rank hand over without a transfer.
#pragma once

#include "models/pipeline/schedule.h"

namespace stepsim {

struct LoweringOptions {
  std::int32_t unsharded_stages = 3;  // 0: no UNSHARD and RESHARD
  bool reduces_gradients = true;
  bool sends = true;
};

// REQUIRES: only compute actions, valid and free of deadlock (check_schedule.h).
PipelineSchedule Lower(PipelineSchedule schedule, const LoweringOptions& options = {});

// Every input gradient that its weight gradient follows at once, as one whole backward.
PipelineSchedule MergeBackwards(PipelineSchedule schedule);

// Without communication actions.
PipelineSchedule ComputeOnly(PipelineSchedule schedule);

}  // namespace stepsim
