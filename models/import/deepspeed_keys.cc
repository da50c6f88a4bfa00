#include "models/import/deepspeed_keys.h"

namespace stepsim {
namespace {

// ZeRO's own knobs have the same names in a job.
std::vector<KeyRow> ZeroRows() {
  return {
      Reads("zero_optimization.stage"),
      Takes("zero_optimization.overlap_comm", "plan.zero.overlap_comm"),
      Reads("zero_optimization.reduce_bucket_size"),
      Takes("zero_optimization.allgather_bucket_size", "plan.zero.allgather_bucket_size"),
      Takes("zero_optimization.allgather_partitions", "plan.zero.allgather_partitions"),
      Takes("zero_optimization.reduce_scatter", "plan.zero.reduce_scatter"),
      Takes("zero_optimization.use_multi_rank_bucket_allreduce",
            "plan.zero.use_multi_rank_bucket_allreduce"),
      Takes("zero_optimization.contiguous_gradients", "plan.zero.contiguous_gradients"),
      Takes("zero_optimization.round_robin_gradients", "plan.zero.round_robin_gradients"),
      Reads("zero_optimization.stage3_prefetch_bucket_size"),
      Takes("zero_optimization.stage3_max_live_parameters", "plan.zero.stage3_max_live_parameters"),
      Takes("zero_optimization.stage3_max_reuse_distance", "plan.zero.stage3_max_reuse_distance"),
      Reads("zero_optimization.stage3_param_persistence_threshold"),
      Takes("zero_optimization.stage3_module_granularity_threshold",
            "plan.zero.stage3_module_granularity_threshold"),
      Takes("zero_optimization.stage3_allgather_sequential",
            "plan.zero.stage3_allgather_sequential"),
      Reads("zero_optimization.sub_group_size"),
      Takes("zero_optimization.zero_hpz_partition_size", "plan.zero.zero_hpz_partition_size"),
      Refuses("zero_optimization.offload_param.device", {"none"}, "offloading"),
      Refuses("zero_optimization.offload_optimizer.device", {"none"}, "offloading"),
      NoEffect("zero_optimization.offload_param.*", "only with offloading"),
      NoEffect("zero_optimization.offload_optimizer.*", "only with offloading"),
      Refuses("zero_optimization.cpu_offload", {"false"}, "offloading"),
      Refuses("zero_optimization.cpu_offload_param", {"false"}, "offloading"),
      NoEffect("zero_optimization.cpu_offload_use_pin_memory", "only with offloading"),
      Refuses("zero_optimization.zenflow", {}, "ZenFlow"),
      Refuses("zero_optimization.zero_quantized_weights", {"false"}, "quantised gathers"),
      Refuses("zero_optimization.zero_quantized_nontrainable_weights", {"false"},
              "quantised weights"),
      Refuses("zero_optimization.zero_quantized_gradients", {"false"}, "quantised reductions"),
      Refuses("zero_optimization.zeropp_loco_param", {}, "quantised reductions"),
      Refuses("zero_optimization.mics_shard_size", {"-1"}, "MiCS"),
      Refuses("zero_optimization.mics_hierarchical_params_gather", {"false"}, "MiCS"),
      Refuses("zero_optimization.legacy_stage1", {"false"}, "the old stage 1"),
      Refuses("zero_optimization.stage3_use_all_reduce_for_fetch_params", {"false"},
              "gathers by all_reduce"),
      Refuses("zero_optimization.stage3_model_persistence_threshold", {"9223372036854775807"},
              "a bound on what persists"),
      Refuses("zero_optimization.leaf_module", {},
              "leaf modules by their class; plan.zero.stage3_leaf_modules=layers says that every "
              "layer is one"),
      NoEffect("zero_optimization.stage3_partition_stream_chunk_size", "start of the training"),
      NoEffect("zero_optimization.stage3_gather_16bit_weights_on_model_save", "checkpoints"),
      NoEffect("zero_optimization.stage3_gather_fp16_weights_on_model_save", "checkpoints"),
      NoEffect("zero_optimization.load_from_fp32_weights", "checkpoints"),
      NoEffect("zero_optimization.elastic_checkpoint", "checkpoints"),
      NoEffect("zero_optimization.pipeline_loading_checkpoint", "checkpoints"),
      NoEffect("zero_optimization.ignore_unused_parameters", "checks"),
      NoEffect("zero_optimization.enable_sanity_checks", "checks"),
      NoEffect("zero_optimization.log_trace_cache_warnings", "logging"),
      NoEffect("zero_optimization.override_module_apply", "start of the training"),
      NoEffect("zero_optimization.memory_efficient_linear", "what autograd keeps of a linear"),
  };
}

std::vector<KeyRow> StepRows() {
  return {
      Reads("train_batch_size"),
      Reads("train_micro_batch_size_per_gpu"),
      Reads("gradient_accumulation_steps"),
      Reads("bf16.enabled"),
      Reads("bfloat16.enabled"),
      Reads("fp16.enabled"),
      Refuses("fp16.auto_cast", {"false"}, "autocast inside DeepSpeed"),
      Refuses("fp16.fp16_master_weights_and_grads", {"false"}, "16-bit master weights"),
      NoEffect("fp16.*", "loss scaling"),
      NoEffect("bf16.*", "how 16-bit gradients are kept"),
      Refuses("amp.enabled", {"false"}, "Apex AMP"),
      NoEffect("amp.*", "only with amp"),
      Refuses("torch_autocast.enabled", {"false"}, "autocast inside DeepSpeed"),
      NoEffect("torch_autocast.*", "only with torch_autocast"),
      Takes("communication_data_type", "plan.zero.communication_data_type",
            {{"fp16", "fp16"}, {"bf16", "bf16"}, {"fp32", "fp32"}}),
      Reads("data_types.grad_accum_dtype"),
      Reads("optimizer.type"),
      Reads("optimizer.params"),
      Refuses("optimizer.legacy_fusion", {"false"}, "the old fused optimizer"),
      Reads("gradient_clipping"),
      Reads("wall_clock_breakdown"),
      NoEffect("prescale_gradients", "numbers of the gradients"),
      NoEffect("gradient_predivide_factor", "numbers of the gradients"),
      Refuses("sparse_gradients", {"false"}, "sparse gradients"),
      Refuses("disable_allgather", {"false"}, "a step without gathers"),
      Refuses("graph_harvesting", {"false"}, "CUDA graphs inside DeepSpeed"),
      Refuses("compile.deepcompile", {"false"}, "DeepCompile"),
      NoEffect("compile.*", "only with deepcompile"),
      Refuses("activation_checkpointing.partition_activations", {"false"},
              "partitioned activations"),
      Refuses("activation_checkpointing.cpu_checkpointing", {"false"}, "offloading"),
      NoEffect("activation_checkpointing.*", "the script says whether it recomputes"),
  };
}

// Tensor, sequence (Ulysses) and pipeline parallelism.
std::vector<KeyRow> ModelParallelRows() {
  return {
      Reads("tensor_parallel.autotp_size"),
      Reads("tensor_parallel.tp_overlap_comm"),
      Refuses("tensor_parallel.partition_config", {}, "cuts of your own"),
      Refuses("tensor_parallel.replace_with_kernel_inject", {"false"}, "kernels of inference"),
      Refuses("tensor_parallel.kernel_inject", {"false"}, "kernels of inference"),
      NoEffect("tensor_parallel.*", "how layers are found and loaded"),
      Reads("sequence_parallel_size"),
      Reads("seq_parallel_communication_data_type"),
      Reads("pipeline.stages"),
      Reads("pipeline.num_stages"),
      Reads("pipeline.partition"),
      Reads("pipeline.partition_method"),
      Reads("pipeline.activation_checkpoint_interval"),
      Reads("pipeline.pipe_partitioned"),
      Reads("pipeline.grad_partitioned"),
      NoEffect("pipeline.seed_layers", "random numbers"),
      NoEffect("pipeline.use_reentrant", "which checkpoint function runs"),
  };
}

std::vector<KeyRow> OtherRows() {
  return {
      NoEffect("scheduler.*", "learning rate"),
      NoEffect("steps_per_print", "logging"),
      NoEffect("dump_state", "logging"),
      NoEffect("memory_breakdown", "logging"),
      NoEffect("tensorboard.*", "logging"),
      NoEffect("wandb.*", "logging"),
      NoEffect("csv_monitor.*", "logging"),
      NoEffect("comet.*", "logging"),
      NoEffect("monitor_config.*", "logging"),
      NoEffect("comms_logger.*", "logging"),
      NoEffect("flops_profiler.*", "profiling"),
      NoEffect("checkpoint.*", "checkpoints"),
      NoEffect("nebula.*", "checkpoints"),
      NoEffect("autotuning.*", "start of the training"),
      NoEffect("elasticity.*", "start of the training"),
      NoEffect("aio.*", "only with offloading"),
      NoEffect("dataloader_drop_last", "data"),
      NoEffect("zero_allow_untested_optimizer", "checks"),
      NoEffect("zero_force_ds_cpu_optimizer", "only with offloading"),
      Refuses("curriculum_learning.enabled", {"false"}, "curricula"),
      NoEffect("curriculum_learning.*", "only with curricula"),
      Refuses("data_efficiency.enabled", {"false"}, "data efficiency"),
      NoEffect("data_efficiency.*", "only with data efficiency"),
      Refuses("progressive_layer_drop.enabled", {"false"}, "layers that are dropped"),
      NoEffect("progressive_layer_drop.*", "only with layers that are dropped"),
      Refuses("eigenvalue.enabled", {"false"}, "eigenvalues"),
      NoEffect("eigenvalue.*", "only with eigenvalues"),
      Refuses("hybrid_engine.enabled", {"false"}, "the hybrid engine"),
      NoEffect("hybrid_engine.*", "only with the hybrid engine"),
      Refuses("compression_training", {}, "compression"),
      Refuses("quantize_training", {}, "quantised training"),
      Refuses("sparse_attention", {}, "sparse attention"),
  };
}

}  // namespace

const std::vector<KeyRow>& DeepspeedRows() {
  static const std::vector<KeyRow> rows =
      Joined({ZeroRows(), StepRows(), ModelParallelRows(), OtherRows()});
  return rows;
}

}  // namespace stepsim
