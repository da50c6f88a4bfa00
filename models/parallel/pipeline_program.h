// What does a pipeline rank enqueue, in host order? A schedule's actions with the transfers, waits
// and reductions of the runtime that carries them out: PyTorch's or Megatron-LM's. Pure functions:
// no graph, no times. Rules: models/README.md, "Pipeline parallel".
//
//   PipelineProgram program = PlanPipeline(PipelineRuntime::kPytorch,
//   FindSchedule("1f1b")->Make(..)); program.ranks[0]  ->  F0 | transfer {F0 ->} | F1 | transfer
//   {F1 ->, <- B0} | wait | B0 ...
#pragma once

#include <cstdint>
#include <vector>

#include "models/pipeline/schedule.h"
#include "models/spec/parallel_spec.h"

namespace stepsim {

// One tensor on its way between neighbouring stages.
struct StageMove {
  bool is_backward = false;  // a gradient, from stage edge + 1 to edge; else an activation
  std::int32_t edge = 0;     // between stages edge and edge + 1
  std::int32_t microbatch = 0;
  bool is_send = false;  // of this rank's
  friend bool operator==(const StageMove&, const StageMove&) = default;
};

enum class PipelineOp : std::uint8_t {
  kCompute,      // `action`: F, B, I or W
  kTransfer,     // `moves`: one kernel; its number within the rank counts up
  kWait,         // compute waits for the transfer with number `transfer`
  kSynchronize,  // the host waits for the device
  kUnshard,      // gather the parameters of action.stage
  kReshard,      // free them
  kReduce,       // start to reduce the gradients of action.stage
};

struct PipelineInstruction {
  PipelineOp op = PipelineOp::kCompute;
  Action action;
  std::vector<StageMove> moves;  // one, or both directions over one edge
  std::int32_t peer = -1;        // pipeline rank at the other end
  std::int32_t queue = 0;        // communicator: transfers of one run in order
  std::int32_t transfer = -1;
};

struct PipelineProgram {
  std::vector<std::vector<PipelineInstruction>> ranks;
};

struct PipelineRules {
  PipelineRuntime runtime = PipelineRuntime::kPytorch;
  bool has_one_communicator = false;    // PyTorch: several chunks, eager NCCL communicators
  bool overlaps_transfers = true;       // Megatron: overlap_p2p_comm
  bool overlaps_warmup = false;         // Megatron: overlap_p2p_comm_warmup_flush
  bool synchronizes = true;             // Megatron: batch_p2p_sync, where transfers are batched
  bool aligns_gather = false;           // Megatron: align_param_gather, of overlapped gathers
  bool aligns_reduction = true;         // Megatron: align_grad_reduce
  bool runs_pairs = false;              // a joined forward and backward: both inputs at their start
  bool shards_stages = false;           // PyTorch: UNSHARD and RESHARD around stages
  bool reduces_after_backward = false;  // a kReduce where the runtime has one
};

// REQUIRES: a valid schedule, of compute actions only.
PipelineProgram PlanPipeline(const PipelineRules& rules, const PipelineSchedule& schedule);

}  // namespace stepsim
