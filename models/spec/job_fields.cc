#include <array>

#include "models/spec/spec_fields.h"

namespace stepsim {
namespace {

constexpr std::array kCommHookNames = {
    EnumName<CommHook>{CommHook::kNone, "none"},
    EnumName<CommHook>{CommHook::kFp16Compress, "fp16_compress"},
    EnumName<CommHook>{CommHook::kBf16Compress, "bf16_compress"},
};
constexpr std::array kOptimizerNames = {
    EnumName<OptimizerKind>{OptimizerKind::kAdamW, "adamw"},
    EnumName<OptimizerKind>{OptimizerKind::kSgd, "sgd"},
    EnumName<OptimizerKind>{OptimizerKind::kSgdMomentum, "sgd_momentum"},
    EnumName<OptimizerKind>{OptimizerKind::kNone, "none"},
};
constexpr std::array kOptimizerImplNames = {
    EnumName<OptimizerImpl>{OptimizerImpl::kForeach, "foreach"},
    EnumName<OptimizerImpl>{OptimizerImpl::kFused, "fused"},
    EnumName<OptimizerImpl>{OptimizerImpl::kForLoop, "for_loop"},
};
constexpr std::array kKernelModeNames = {
    EnumName<KernelMode>{KernelMode::kEager, "eager"},
    EnumName<KernelMode>{KernelMode::kCompiled, "compiled"},
    EnumName<KernelMode>{KernelMode::kFused, "fused"},
};
constexpr std::array kLossNames = {
    EnumName<LossMode>{LossMode::kAsKernels, "auto"},
    EnumName<LossMode>{LossMode::kEager, "eager"},
    EnumName<LossMode>{LossMode::kCompiled, "compiled"},
    EnumName<LossMode>{LossMode::kFused, "fused"},
};
constexpr std::array kAttentionNames = {
    EnumName<AttentionKind>{AttentionKind::kFlash, "flash"},
    EnumName<AttentionKind>{AttentionKind::kUnfused, "unfused"},
};
constexpr std::array kRankNames = {
    EnumName<bool>{false, "folded"},
    EnumName<bool>{true, "all"},
};

constexpr std::array kContentionNames = {
    EnumName<ContentionMode>{ContentionMode::kOff, "off"},
    EnumName<ContentionMode>{ContentionMode::kSm, "sm"},
    EnumName<ContentionMode>{ContentionMode::kFull, "full"},
};

const StructTable<DdpPlan>& DdpFields() {
  static const StructTable<DdpPlan> table{
      Field("bucket_cap_mb", &DdpPlan::bucket_cap_mb, "size at which a gradient bucket is closed")
          .Unset("25 MiB, with a first bucket of 1 MiB")
          .Counts("MiB")
          .Above(0)
          .AtMost(1e9),
      Field("bucket_cap_mb_list", &DdpPlan::bucket_cap_mb_list,
            "one size per bucket in launch order, the last one repeats")
          .Unset("bucket_cap_mb for every bucket")
          .Counts("MiB")
          .Above(0)
          .AtMost(1e9),
      Field("first_bucket_mb", &DdpPlan::first_bucket_mb, "size of the first bucket")
          .Unset("1 MiB, or bucket_cap_mb where that is given")
          .Counts("MiB")
          .Above(0)
          .AtMost(1e9),
      Field("gradient_as_bucket_view", &DdpPlan::gradient_as_bucket_view,
            "gradients alias the buckets: no copies back, less memory"),
      Field("find_unused_parameters", &DdpPlan::find_unused_parameters,
            "look for parameters without a gradient after every forward pass"),
      Field("static_graph", &DdpPlan::static_graph, "the graph is the same in every iteration"),
      Field("broadcast_buffers", &DdpPlan::broadcast_buffers,
            "broadcast buffers from rank 0 before the forward pass"),
      Field("comm_hook", &DdpPlan::comm_hook, kCommHookNames,
            "what happens to a bucket on its way: fp16_compress and bf16_compress halve it"),
      Field("iteration", &DdpPlan::iteration, kIterationNames,
            "which iteration is simulated; the first has one bucket and no overlap"),
      Field("no_sync", &DdpPlan::no_sync,
            "under gradient accumulation reduce in the last micro-step only"),
  };
  return table;
}

const StructTable<ParallelPlan>& PlanFields() {
  static const StructTable<ParallelPlan> table{
      Field("strategy", &ParallelPlan::strategy, "how the work is spread over the GPUs")
          .Choices({"ddp", "fsdp1", "fsdp2", "zero", "megatron", "none"}),
      Field("data_parallel", &ParallelPlan::data_parallel,
            "replicas of the model; 0: all GPUs that the other degrees leave")
          .Range(0, 1e9)
          .Aliases({"dp", "data_parallel_size", "data_parallel_replicate_degree"}),
      Field("tensor_parallel", &ParallelPlan::tensor_parallel,
            "ranks that share every layer's matrices")
          .Range(1, 4096)
          .Aliases({"tp", "tensor_parallel_degree", "tensor_model_parallel_size"}),
      Field("context_parallel", &ParallelPlan::context_parallel, "ranks that share every sequence")
          .Range(1, 4096)
          .Aliases({"cp", "context_parallel_degree", "context_parallel_size"}),
      Field("pipeline_parallel", &ParallelPlan::pipeline_parallel,
            "ranks that share the layers, one stage or several chunks each")
          .Range(1, 4096)
          .Aliases({"pp", "pipeline_parallel_degree", "pipeline_model_parallel_size"}),
      Field("expert_parallel", &ParallelPlan::expert_parallel,
            "context and data parallel ranks that share the experts of a layer")
          .Range(1, 65536)
          .Aliases({"ep", "expert_parallel_degree", "expert_model_parallel_size"}),
      Field("mesh_order", &ParallelPlan::mesh_order,
            "which ranks are neighbours, innermost first: an order of tp, cp, dp and pp"),
      Field("ideal", &ParallelPlan::ideal,
            "a ceiling for sharded strategies: every gather as early as its inputs allow, memory "
            "without limit, reductions on a communicator of their own"),
      Field("ddp", &ParallelPlan::ddp, DdpFields(), "PyTorch DistributedDataParallel"),
      Field("fsdp1", &ParallelPlan::fsdp1, Fsdp1Fields(), "PyTorch FullyShardedDataParallel"),
      Field("fsdp2", &ParallelPlan::fsdp2, Fsdp2Fields(), "PyTorch fully_shard"),
      Field("zero", &ParallelPlan::zero, ZeroFields(), "DeepSpeed ZeRO"),
      Field("megatron", &ParallelPlan::megatron, MegatronFields(),
            "Megatron-LM's data parallelism and distributed optimizer"),
      Field("tensor", &ParallelPlan::tensor, TensorFields(), "tensor parallelism"),
      Field("pipeline", &ParallelPlan::pipeline, PipelineFields(), "pipeline parallelism"),
      Field("context", &ParallelPlan::context, ContextFields(), "context parallelism"),
      Field("expert", &ParallelPlan::expert, ExpertFields(), "expert parallelism"),
      Field("clip_gradients", &ParallelPlan::clip_gradients,
            "the norm of all gradients before the optimizer: one number over all ranks, for which "
            "they wait")
          .Unset("true with tensor, context or pipeline parallelism, else false"),
  };
  return table;
}

const StructTable<BatchSpec>& BatchFields() {
  static const StructTable<BatchSpec> table{
      Field("micro_batch_size", &BatchSpec::micro_batch_size, "samples per GPU and micro-step")
          .Range(1, 1e6)
          .Aliases({"micro_batch", "mbs"}),
      Field("sequence_length", &BatchSpec::sequence_length,
            "tokens of a sample; needed for transformers")
          .Range(1, 1e7)
          .Aliases({"seq_length", "seq_len", "max_seq_len"}),
      Field("gradient_accumulation_steps", &BatchSpec::gradient_accumulation_steps,
            "micro-steps of an optimizer step")
          .Range(1, 4096)
          .Aliases({"gradient_accumulation", "grad_accum"}),
      Field(
          "global_batch_size", &BatchSpec::global_batch_size,
          "samples of an optimizer step over all GPUs; instead of gradient_accumulation_steps, or "
          "of micro_batch_size")
          .Unset("micro_batch_size x gradient_accumulation_steps x GPUs")
          .Range(1, 1e12)
          .Aliases({"train_batch_size", "gbs"}),
  };
  return table;
}

const StructTable<PrecisionSpec>& PrecisionFields() {
  static const StructTable<PrecisionSpec> table{
      Field("compute", &PrecisionSpec::compute, "element type of the matrix products")
          .Choices({"fp32", "tf32", "bf16", "fp16", "fp8"}),
      Field("parameters", &PrecisionSpec::parameters, "element type of parameters and gradients")
          .Choices({"fp32", "bf16", "fp16"}),
  };
  return table;
}

const StructTable<SimulateSpec>& SimulateFields() {
  static const StructTable<SimulateSpec> table{
      Field("ranks", &SimulateSpec::all_ranks, kRankNames,
            "folded: one rank stands for its data-parallel peers; all: every rank by itself"),
      Field("steps", &SimulateSpec::steps, "consecutive steps; the last one is reported")
          .Range(1, 1000),
      Field("launch_overhead", &SimulateSpec::launch_overhead, "another spelling of host.launch")
          .Unset("host.launch"),
      Field("stragglers", &SimulateSpec::stragglers,
            "slow ranks, each RANK:FACTOR: compute kernels of that global rank take FACTOR times "
            "as long")
          .Aliases({"straggler"}),
      Field("jitter", &SimulateSpec::jitter,
            "compute varies from rank to rank and from micro-step to micro-step: standard "
            "deviation over mean")
          .Range(0, 0.5),
      Field("seed", &SimulateSpec::seed, "of the jitter: the same draws for the same number")
          .Range(0, 1e15),
  };
  return table;
}

}  // namespace

const StructTable<JobSpec>& JobFields() {
  using J = JobSpec;
  static const StructTable<J> table{
      Field("name", &J::name, "the job's name, for reports").Unset("the file's name"),
      Field<J>::Reference("model", "a name, a file (also a Hugging Face config.json) or a mapping")
          .Required(),
      Field<J>::Reference("hardware", "a name, a file, or a mapping that may begin with base: NAME")
          .Required(),
      Field<J>::Reference("network", "a name, a file or a mapping laid over the profile's network"),
      Field<J>::Reference("calibration",
                          "measurements of a real system, as `stepsim calibrate` writes them: a "
                          "name, a file or a mapping, laid over the profile"),
      Field("nodes", &J::nodes, "nodes of the cluster").Range(1, 1e6),
      Field("gpus_per_node", &J::gpus_per_node, "GPUs used per node")
          .Unset("the profile's")
          .Range(1, 1e6),
      Field("plan", &J::plan, PlanFields(), "how the work is spread"),
      Field("batch", &J::batch, BatchFields(), "what a step processes"),
      Field("precision", &J::precision, PrecisionFields(), "element types"),
      Field("kernels", &J::kernels, kKernelModeNames,
            "the memory-bound kernels of a transformer: PyTorch eager, torch.compile, or fused by "
            "hand (Apex, Transformer Engine, Liger)"),
      Field("loss", &J::loss, kLossNames,
            "the kernels of the cross entropy over the logits, which eager ones copy in fp32 three "
            "times; auto: as kernels"),
      Field("attention", &J::attention, kAttentionNames,
            "flash: one kernel, the scores stay on chip; unfused: the scores go through HBM"),
      Field("recompute", &J::recompute, RecomputeFields(),
            "activation recomputation (checkpointing): what backward runs again instead of keeping")
          .Aliases({"activation_checkpoint"}),
      Field("optimizer", &J::optimizer, kOptimizerNames, "what follows the gradients"),
      Field("optimizer_impl", &J::optimizer_impl, kOptimizerImplNames,
            "torch.optim's implementation: foreach, fused or for_loop"),
      Field("memory", &J::memory, MemoryFields(),
            "what memory is charged with besides tensors, and what happens when it is not enough"),
      Field("host", &J::host, HostFields(), "what launching costs"),
      Field("collectives", &J::collectives, CollectiveModelFields(),
            "cost models of the collectives"),
      Field("contention", &J::contention, kContentionNames,
            "what overlap costs: off: nothing, the ceiling; sm: collectives take SMs; full: memory "
            "bandwidth, links and caches as well"),
      Field("simulate", &J::simulate, SimulateFields(), "how the job is simulated"),
      Field("mfu_convention", &J::mfu_convention, "which FLOPs count as useful")
          .Choices({"palm", "megatron", "torchtitan", "causal"}),
  };
  return table;
}

KernelMode LossKernels(const JobSpec& job) {
  switch (job.loss) {
    case LossMode::kEager:
      return KernelMode::kEager;
    case LossMode::kCompiled:
      return KernelMode::kCompiled;
    case LossMode::kFused:
      return KernelMode::kFused;
    case LossMode::kAsKernels:
      break;
  }
  return job.kernels;
}

bool IsFirstIteration(const JobSpec& job) {
  const ParallelPlan& plan = job.plan;
  return (plan.strategy == "ddp" && plan.ddp.iteration == TrainingIteration::kFirst) ||
         (plan.strategy == "fsdp1" && plan.fsdp1.iteration == TrainingIteration::kFirst) ||
         (plan.strategy == "megatron" && plan.megatron.is_first_iteration());
}

}  // namespace stepsim
