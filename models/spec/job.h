// What is asked? One job: a model, a cluster, a plan, a batch, and how to simulate it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/spec/collective_spec.h"
#include "models/spec/fsdp_spec.h"
#include "models/spec/hardware.h"
#include "models/spec/host_spec.h"
#include "models/spec/memory_spec.h"
#include "models/spec/model.h"
#include "models/spec/parallel_spec.h"
#include "models/spec/training_iteration.h"
#include "models/spec/zero_spec.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"
#include "sim/config/value_origin.h"

namespace stepsim {

enum class CommHook { kNone, kFp16Compress, kBf16Compress };

// PyTorch DistributedDataParallel; reference: torch 2.x, defaults as its constructor has them.
struct DdpPlan {
  std::optional<double> bucket_cap_mb;     // MiB; unset: 25 with a 1 MiB first bucket
  std::vector<double> bucket_cap_mb_list;  // MiB, in launch order, the last one repeats
  std::optional<double> first_bucket_mb;   // MiB; overrides the rule above
  bool gradient_as_bucket_view = false;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool broadcast_buffers = true;
  CommHook comm_hook = CommHook::kNone;
  TrainingIteration iteration = TrainingIteration::kSteady;
  bool no_sync = true;  // accumulate without reducing in between
};

struct ParallelPlan {
  std::string strategy = "ddp";    // a row of models/parallel's table: "ddp", ...
  std::int64_t data_parallel = 0;  // replicas of the network; 0: all GPUs that are left
  std::int64_t tensor_parallel = 1;
  std::int64_t context_parallel = 1;
  std::int64_t pipeline_parallel = 1;
  std::int64_t expert_parallel = 1;  // ranks among the context and data parallel ones
  // Which ranks are neighbours, innermost first: models/topology/mesh.h.
  std::string mesh_order = "tp-cp-dp-pp";
  // What-if of sharded strategies: gathers as early as their inputs allow, memory without limit.
  bool ideal = false;
  DdpPlan ddp;
  Fsdp1Plan fsdp1;
  Fsdp2Plan fsdp2;
  ZeroPlan zero;
  MegatronPlan megatron;
  TensorPlan tensor;
  PipelinePlan pipeline;
  ContextPlan context;
  ExpertPlan expert;
  std::optional<bool> clip_gradients;  // unset: with model parallelism, whose frameworks do

  // Ranks that hold one copy of the network between them.
  std::int64_t model_ranks() const {
    return tensor_parallel * context_parallel * pipeline_parallel;
  }
  std::int64_t expert_tensor_parallel() const {
    return expert.tensor_parallel > 0 ? expert.tensor_parallel : tensor_parallel;
  }
  // Are the experts dealt out otherwise than the rest of the network?
  bool has_expert_mesh() const {
    return expert_parallel > 1 || expert_tensor_parallel() != tensor_parallel;
  }
  // Of each stage's parameters along one pipeline: bidirectional schedules have two.
  std::int64_t copies() const;
  // Does any rank talk to another? Independent replicas may still be cut within.
  bool communicates() const { return strategy != "none" || model_ranks() > 1; }
  bool sequence_parallel() const {
    return tensor_parallel > 1 && tensor.sequence_parallel.value_or(true);
  }
};

struct BatchSpec {
  std::int64_t micro_batch_size = 1;  // samples per GPU and micro-step
  std::int64_t sequence_length = 1;   // tokens per sample (transformers)
  std::int64_t gradient_accumulation_steps = 1;
  // Samples of an optimizer step over all GPUs: says what the other two leave open.
  std::optional<std::int64_t> global_batch_size;
};

struct PrecisionSpec {
  DType compute = DType::kBf16;     // of the matrix products
  DType parameters = DType::kFp32;  // as stored, and of the gradients
};

enum class OptimizerKind { kAdamW, kSgd, kSgdMomentum, kNone };
// torch.optim's implementations: many tensors at a time, one kernel for all, one by one.
enum class OptimizerImpl { kForeach, kFused, kForLoop };

// How the small kernels between the matrix products run.
enum class KernelMode { kEager, kCompiled, kFused };
// The loss, whose logits are the largest tensors of all: as the other kernels, or by itself.
enum class LossMode { kAsKernels, kEager, kCompiled, kFused };
enum class AttentionKind { kFlash, kUnfused };

struct SimulateSpec {
  bool all_ranks = false;                   // unfold the data-parallel replicas
  std::int64_t steps = 1;                   // consecutive steps; the last one is reported
  std::optional<Duration> launch_overhead;  // another spelling of host.launch
  std::vector<std::string> stragglers;      // "RANK:FACTOR": rank_pace.h
  double jitter = 0;                        // of micro-steps' compute: standard deviation over mean
  std::int64_t seed = 0;                    // of the jitter
};

struct JobSpec {
  std::string name;
  std::string file;                // as the user named it
  std::vector<std::string> given;  // paths that somebody wrote: a default is in none of them
  ModelSpec model;
  HardwareSpec hardware;        // with the calibration's values over it
  CalibrationSpec calibration;  // where those come from
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  ParallelPlan plan;
  BatchSpec batch;
  PrecisionSpec precision;
  KernelMode kernels = KernelMode::kEager;  // the memory-bound ones of a transformer
  LossMode loss = LossMode::kAsKernels;
  AttentionKind attention = AttentionKind::kFlash;
  RecomputeSpec recompute;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  OptimizerImpl optimizer_impl = OptimizerImpl::kForeach;
  MemorySpec memory;
  HostSpec host;
  CollectiveModelSpec collectives;
  ContentionMode contention = ContentionMode::kFull;
  SimulateSpec simulate;
  std::string mfu_convention = "palm";

  std::int64_t gpus() const { return nodes * gpus_per_node; }
  bool is_given(std::string_view path) const {
    return std::find(given.begin(), given.end(), path) != given.end();
  }
  // Copies of the network, each with samples of its own.
  std::int64_t replicas() const { return std::max<std::int64_t>(gpus() / plan.model_ranks(), 1); }
  // Samples of an optimizer step over all GPUs.
  std::int64_t global_samples() const {
    return batch.micro_batch_size * batch.gradient_accumulation_steps * replicas();
  }
  // Ranks that hold the same parameters: they sum their gradients.
  std::int64_t gradient_ranks() const { return replicas() * plan.context_parallel * plan.copies(); }
  // Ranks that hold the same experts.
  std::int64_t expert_gradient_ranks() const {
    const std::int64_t ranks = gpus() / plan.pipeline_parallel;
    const std::int64_t share = plan.expert_parallel * plan.expert_tensor_parallel();
    return std::max<std::int64_t>(ranks / share, 1) * plan.copies();
  }
  Bytes memory_limit() const { return memory.limit.value_or(hardware.gpu.memory); }
};

// nullptr: a list of layers.
inline const TransformerSpec* TransformerOf(const JobSpec& job) {
  return std::get_if<TransformerSpec>(&job.model.network);
}
inline bool Uses(const JobSpec& job, std::string_view strategy) {
  return job.plan.strategy == strategy;
}

// Of tensor parallelism (plan.tensor): as Megatron-LM's layers do it, or as DTensor does.
bool HidesInputGradients(const JobSpec& job);
bool RegathersInput(const JobSpec& job);

HostTimes TimesOf(const JobSpec& job);
KernelMode LossKernels(const JobSpec& job);
StreamPriority PriorityOf(const JobSpec& job);   // of the communication streams
std::int64_t ConnectionsOf(const JobSpec& job);  // hardware queues that the streams share

// What makes the host wait for the device in the middle of a step ("DeepSpeed's stage 3"), which no
// CUDA graph survives; empty: nothing.
std::string_view HostWaitInStep(const JobSpec& job);

// Does the host wait for the number of tokens of each expert? PyTorch's grouped products read it on
// the device; exchanges and Megatron's products need it on the host, unless every expert gets as
// many.
bool HostReadsExpertCounts(const JobSpec& job);

// Is the very first iteration asked for, which comes once and after nothing?
bool IsFirstIteration(const JobSpec& job);

struct ResolvedJob {
  JobSpec job;
  std::vector<ValueOrigin> origins;  // every field, in document order
  std::string resolved_json;         // the whole job with presets expanded
  bool has_file = true;              // false: read from a framework's file alone (models/import)
  std::vector<std::string> notes, warnings;  // what was not taken over from such files
};

}  // namespace stepsim
