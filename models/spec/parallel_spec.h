// Model parallelism: how one copy of the network is spread over GPUs. Degrees and mesh order stand
// in ParallelPlan (job.h), the knobs of each kind here, with the frameworks' defaults. Schedules:
// models/README.md, "Tensor parallel", "Pipeline parallel", "Context parallel", "Expert parallel".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/pipeline/schedule.h"

namespace stepsim {

// Which mechanism hides the collectives of tensor parallelism behind their matrix products?
enum class TensorOverlap {
  kNone,         // what Megatron does by itself: two pairs of backward beside weight gradients
  kAsync,        // PyTorch's fused operators on symmetric memory (async TP)
  kUserBuffers,  // Transformer Engine's tp_comm_overlap
};

struct TensorPlan {
  std::optional<bool> sequence_parallel;  // unset: true where tensor_parallel > 1
  TensorOverlap overlap = TensorOverlap::kNone;
  // Collectives of backward beside gradients' products; unset: Megatron's yes, DTensor's no.
  std::optional<bool> async_input_gradient;
  // Keep a shard of a gathered input and gather it again in backward; unset: the same.
  std::optional<bool> regather_input;
  bool vocabulary_parallel_loss = true;
  // Transformer Engine's user buffers (tp_comm_*).
  bool bulk_wgrad = true;
  bool bulk_dgrad = true;
  bool overlap_ag = true;
  bool overlap_rs = true;
  bool overlap_rs_dgrad = false;
  std::int64_t num_splits = 4;  // of the pipelined reduce_scatter
  bool use_copy_engine = true;  // ring exchange
};

// Whose runtime moves the tensors between stages?
// Auto: Megatron's under plan.strategy: megatron, else PyTorch's.
enum class PipelineRuntime { kAuto, kPytorch, kMegatron };
// Who counts as a layer when layers are dealt out to the stages?
enum class StageBalance {
  kLayers,      // layers alone; embedding and head come on top
  kEnds,        // embedding and head count as a layer each
  kTime,        // by the work of each unit, the slowest stage as fast as possible
  kParameters,  // by the parameters of each unit, the largest stage as small as possible
};

struct PipelinePlan {
  std::string schedule = "1f1b";           // a row of models/pipeline's table, or FILE.csv
  std::int64_t virtual_stages = 0;         // chunks per rank; 0: the schedule's own number
  std::int64_t microbatch_group_size = 0;  // Megatron's interleaving; 0: pipeline_parallel
  PipelineRuntime runtime = PipelineRuntime::kAuto;
  StageBalance balance = StageBalance::kLayers;
  std::vector<double> layers_per_stage;  // whole numbers, in network order; overrides balance
  // PyTorch: NCCL made the pipeline's communicator at the start (init_process_group's device_id),
  // and transfers of several chunks share it; false: two ranks have one for themselves.
  bool eager_communicators = false;
  // Megatron's point-to-point transfers.
  std::optional<bool> overlap_p2p_comm;  // unset: true with interleaving
  std::optional<bool> batch_p2p_comm;    // unset: not overlap_p2p_comm
  bool batch_p2p_sync = true;            // the host waits for the device after each exchange
  bool overlap_p2p_comm_warmup_flush = false;
  bool variable_seq_lengths = false;
  bool deallocate_pipeline_outputs = true;
  bool defer_embedding_wgrad_compute = false;
  bool overlap_forward_backward = false;  // OVERLAP_F_B runs both at once; else F, then B

  std::shared_ptr<const PipelineSchedule> file_schedule;  // read from `schedule`: FILE.csv
};

enum class ContextExchange { kP2p, kAllGather, kAllToAll, kAllToAllP2p };

struct ContextPlan {
  ContextExchange comm_type = ContextExchange::kP2p;
  bool load_balance = true;  // rank r holds chunks r and 2cp-1-r of the sequence
};

enum class ExpertDispatcher { kAllGather, kAllToAll };

struct ExpertPlan {
  ExpertDispatcher dispatcher = ExpertDispatcher::kAllToAll;
  std::int64_t tensor_parallel = 0;       // of the experts; 0: that of the others
  std::optional<double> capacity_factor;  // tokens above it are dropped; unset: none are
  bool pad_to_capacity = false;           // every expert's input has the size of its capacity
  double imbalance = 1;                   // tokens of the busiest rank over the mean
  bool shared_expert_overlap = false;     // the shared expert beside the dispatch
  bool overlap_microbatches = false;      // beside the other direction of another micro-batch
  // Then weight gradients come behind all input gradients of their part of the layer. Unset: with
  // plan.pipeline.overlap_forward_backward, as DeepSeek's DualPipe does.
  std::optional<bool> delay_weight_gradients;
};

}  // namespace stepsim
