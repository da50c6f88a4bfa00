#include "models/import/torchtitan_keys.h"

#include <string_view>

namespace stepsim {
namespace {

constexpr std::string_view kWhenOn = "only with a feature that is off";

// The run, the network and the optimizer.
std::vector<KeyRow> RunRows() {
  return {
      Takes("job.description", "name"),
      NoEffect("job.*", "logging"),
      NoEffect("profiling.*", "profiling"),
      NoEffect("metrics.*", "logging"),
      NoEffect("comm.*", "timeouts"),
      NoEffect("debug.*", "debugging"),
      NoEffect("memory_estimation.*", "memory estimation"),
      NoEffect("checkpoint.*", "checkpoints"),
      NoEffect("lr_scheduler.*", "learning rate"),
      NoEffect("validation.*", "validation"),

      Reads("model.name"),
      Reads("model.flavor"),
      Refuses("model.converters", {""}, "float8, MX and other converters"),
      NoEffect("model.norm_type", "the kind of norm is the model's"),
      NoEffect("model.tokenizer_path", "data"),
      NoEffect("model.hf_assets_path", "data"),
      NoEffect("model.print_after_conversion", "logging"),

      Takes("optimizer.name", "optimizer", {{"AdamW", "adamw"}, {"Adam", "adamw"}}),
      Takes("optimizer.implementation", "optimizer_impl",
            {{"fused", "fused"}, {"foreach", "foreach"}, {"for-loop", "for_loop"}}),
      Takes("optimizer.fused", "optimizer_impl", {{"true", "fused"}, {"false", "foreach"}}),
      Refuses("optimizer.early_step_in_backward", {"false"}, "an optimizer inside backward"),
      NoEffect("optimizer.lr", "learning rate"),
      NoEffect("optimizer.*", "the optimizer's numbers"),

      Reads("activation_checkpoint.mode"),
      Reads("activation_checkpoint.selective_ac_option"),
      Takes("activation_checkpoint.early_stop", "recompute.early_stop"),
      Refuses("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
              {"moe.router.gate"}, "matrix products that are recomputed by name"),
      NoEffect("activation_checkpoint.preserve_rng_state", "random numbers"),
      NoEffect("activation_checkpoint.determinism_check", "debugging"),
      NoEffect("activation_checkpoint.debug", "debugging"),
      Refuses("float8.enable_float8_linear", {"false"}, "float8"),  // before converters
      NoEffect("float8.*", "only with model.converters"),
      NoEffect("mx.*", "only with model.converters"),
      NoEffect("quantize.*", "only with model.converters"),
      Refuses("fault_tolerance.enable", {"false"}, "torchft"),
      NoEffect("fault_tolerance.*", kWhenOn),
  };
}

// A step.
std::vector<KeyRow> TrainingRows() {
  return {
      Reads("training.local_batch_size"),
      Reads("training.batch_size"),
      Reads("training.global_batch_size"),
      Takes("training.seq_len", "batch.sequence_length"),
      Takes("training.dtype", "precision.parameters", {{"bfloat16", "bf16"}, {"float32", "fp32"}}),
      Reads("training.mixed_precision_param"),
      Reads("training.mixed_precision_reduce"),
      Reads("training.compile"),
      Reads("training.max_norm"),
      Refuses("training.enable_cpu_offload", {"false"}, "offloading to the CPU"),
      Refuses("training.deterministic", {"false"}, "deterministic kernels"),
      NoEffect("training.dataset", "data"),
      NoEffect("training.dataset_path", "data"),
      NoEffect("training.steps", "length of the training"),
      NoEffect("training.warmup_steps", "learning rate"),
      NoEffect("training.seed", "random numbers"),
      NoEffect("training.gc_freq", "Python's garbage collection"),
      NoEffect("training.gc_debug", "debugging"),
      NoEffect("training.enable_loss_parallel", "only with tensor parallelism"),

      Reads("compile.enable"),
      Reads("compile.components"),
      Refuses("compile.backend", {"inductor"}, "another compiler than inductor"),
      NoEffect("compile.*", "details of the compiler"),
  };
}

// Of versions with a table [parallelism].
std::vector<KeyRow> ParallelismRows() {
  return {
      Reads("parallelism.data_parallel_replicate_degree"),
      Reads("parallelism.data_parallel_shard_degree"),
      Reads("parallelism.fsdp_reshard_after_forward"),
      Takes("parallelism.tensor_parallel_degree", "plan.tensor_parallel"),
      Takes("parallelism.pipeline_parallel_degree", "plan.pipeline_parallel"),
      Takes("parallelism.context_parallel_degree", "plan.context_parallel"),
      Takes("parallelism.expert_parallel_degree", "plan.expert_parallel"),
      Reads("parallelism.expert_tensor_parallel_degree"),
      Refuses("parallelism.expert_parallel_comm_backend", {"standard"},
              "DeepEP and HybridEP, kernels of their own for the exchanges of experts"),
      Refuses("parallelism.enable_compiled_autograd", {"false"}, "compiled autograd"),
      Takes("parallelism.disable_loss_parallel", "plan.tensor.vocabulary_parallel_loss",
            {{"true", "false"}, {"false", "true"}}),
      Reads("parallelism.enable_async_tensor_parallel"),
      Takes("parallelism.context_parallel_rotate_method", "plan.context.comm_type",
            {{"allgather", "all_gather"}, {"alltoall", "p2p"}}),
      Reads("parallelism.pipeline_parallel_split_points"),
      Reads("parallelism.module_fqns_per_model_part"),
      Reads("parallelism.pipeline_parallel_layers_per_stage"),
      Reads("parallelism.pipeline_parallel_first_stage_less_layers"),
      Reads("parallelism.pipeline_parallel_last_stage_less_layers"),
      Reads("parallelism.pipeline_parallel_expert_parallel_overlap"),
      Reads("parallelism.pipeline_parallel_schedule"),
      Reads("parallelism.pipeline_parallel_schedule_csv"),
      Reads("parallelism.pipeline_parallel_microbatch_size"),
  };
}

// Of versions that have them in [training] and [experimental].
std::vector<KeyRow> OlderRows() {
  return {
      Reads("training.data_parallel_replicate_degree"),
      Reads("training.data_parallel_shard_degree"),
      Reads("training.data_parallel_degree"),  // before there were replicas
      Refuses("training.data_parallel_type", {"fsdp"}, "DDP of versions without replicas"),
      Reads("training.fsdp_reshard_after_forward"),
      Takes("training.tensor_parallel_degree", "plan.tensor_parallel"),
      Takes("experimental.pipeline_parallel_degree", "plan.pipeline_parallel"),
      Takes("experimental.context_parallel_degree", "plan.context_parallel"),
      Refuses("experimental.enable_compiled_autograd", {"false"}, "compiled autograd"),
      Refuses("experimental.custom_import", {""}, "code of your own"),
      Refuses("experimental.custom_args_module", {""}, "code of your own"),
      Reads("experimental.enable_async_tensor_parallel"),
      Takes("experimental.context_parallel_rotate_method", "plan.context.comm_type",
            {{"allgather", "all_gather"}, {"alltoall", "p2p"}}),
      Reads("experimental.pipeline_parallel_split_points"),
      Reads("experimental.pipeline_parallel_schedule"),
      Reads("experimental.pipeline_parallel_microbatches"),
  };
}

}  // namespace

const std::vector<KeyRow>& TorchtitanRows() {
  static const std::vector<KeyRow> rows =
      Joined({RunRows(), TrainingRows(), ParallelismRows(), OlderRows()});
  return rows;
}

}  // namespace stepsim
