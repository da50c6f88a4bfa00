#include "models/import/accelerate_keys.h"

#include <string_view>

namespace stepsim {
namespace {

constexpr std::string_view kWhere = "where processes start";
constexpr std::string_view kTpu = "only on TPUs";

std::vector<KeyRow> RunRows() {
  return {
      Reads("distributed_type"),
      Reads("num_machines"),
      Reads("num_processes"),
      Reads("mixed_precision"),
      Reads("dynamo_backend"),
      Reads("dynamo_config.dynamo_backend"),
      Reads("dynamo_config.backend"),
      NoEffect("dynamo_config.*", "details of the compiler"),
      Refuses("use_cpu", {"false", "no"}, "training on CPUs"),
      Refuses("fp8_config", {}, "fp8"),
      Refuses("tp_config", {}, "the older form of parallelism_config.parallelism_config_tp_size"),
      NoEffect("ipex_config.*", "only on CPUs"),
      NoEffect("mpirun_config.*", kWhere),
      NoEffect("compute_environment", kWhere),
      NoEffect("debug", "debugging"),
      NoEffect("enable_cpu_affinity", kWhere),
      NoEffect("gpu_ids", kWhere),
      NoEffect("machine_rank", kWhere),
      NoEffect("main_process_ip", kWhere),
      NoEffect("main_process_port", kWhere),
      NoEffect("main_training_function", kWhere),
      NoEffect("rdzv_backend", kWhere),
      NoEffect("same_network", kWhere),
      NoEffect("deepspeed_hostfile", kWhere),
      NoEffect("command_file", kTpu),
      NoEffect("commands", kTpu),
      NoEffect("downcast_bf16", kTpu),
      NoEffect("tpu_name", kTpu),
      NoEffect("tpu_zone", kTpu),
      NoEffect("tpu_env", kTpu),
      NoEffect("tpu_vm", kTpu),
      NoEffect("tpu_use_cluster", kTpu),
      NoEffect("tpu_use_sudo", kTpu),
  };
}

std::vector<KeyRow> FsdpRows() {
  return {
      Reads("fsdp_config.fsdp_version"),
      Reads("fsdp_config.fsdp_sharding_strategy"),
      Reads("fsdp_config.fsdp_reshard_after_forward"),
      Reads("fsdp_config.fsdp_backward_prefetch"),
      Reads("fsdp_config.fsdp_backward_prefetch_policy"),
      Reads("fsdp_config.fsdp_forward_prefetch"),
      Reads("fsdp_config.fsdp_limit_all_gathers"),
      Reads("fsdp_config.fsdp_auto_wrap_policy"),
      Reads("fsdp_config.fsdp_min_num_params"),
      Reads("fsdp_config.fsdp_activation_checkpointing"),
      Refuses("fsdp_config.fsdp_offload_params", {"false"}, "offloading"),
      NoEffect("fsdp_config.fsdp_transformer_layer_cls_to_wrap", "every layer is wrapped"),
      NoEffect("fsdp_config.fsdp_state_dict_type", "checkpoints"),
      NoEffect("fsdp_config.fsdp_cpu_ram_efficient_loading", "start of the training"),
      NoEffect("fsdp_config.fsdp_sync_module_states", "start of the training"),
      NoEffect("fsdp_config.fsdp_use_orig_params", "which tensors the optimizer sees"),
  };
}

std::vector<KeyRow> OtherLibraryRows() {
  return {
      Reads("deepspeed_config.deepspeed_config_file"),
      Reads("deepspeed_config.zero_stage"),
      Reads("deepspeed_config.gradient_accumulation_steps"),
      Reads("deepspeed_config.gradient_clipping"),
      Refuses("deepspeed_config.offload_optimizer_device", {"none"}, "offloading"),
      Refuses("deepspeed_config.offload_param_device", {"none"}, "offloading"),
      NoEffect("deepspeed_config.offload_optimizer_nvme_path", "only with offloading"),
      NoEffect("deepspeed_config.offload_param_nvme_path", "only with offloading"),
      NoEffect("deepspeed_config.zero3_init_flag", "start of the training"),
      NoEffect("deepspeed_config.zero3_save_16bit_model", "checkpoints"),
      NoEffect("deepspeed_config.deepspeed_multinode_launcher", kWhere),
      NoEffect("deepspeed_config.deepspeed_hostfile", kWhere),
      NoEffect("deepspeed_config.deepspeed_inclusion_filter", kWhere),
      NoEffect("deepspeed_config.deepspeed_exclusion_filter", kWhere),
      Refuses("deepspeed_config.deepspeed_moe_layer_cls_names", {}, "mixtures of experts"),
      Reads("megatron_lm_config.megatron_lm_gradient_clipping"),
      Reads("megatron_lm_config.megatron_lm_num_micro_batches"),
      Reads("megatron_lm_config.megatron_lm_recompute_activations"),
      Reads("megatron_lm_config.megatron_lm_use_distributed_optimizer"),
      Takes("megatron_lm_config.megatron_lm_tp_degree", "plan.tensor_parallel"),
      Takes("megatron_lm_config.megatron_lm_pp_degree", "plan.pipeline_parallel"),
      Reads("megatron_lm_config.megatron_lm_sequence_parallelism"),
  };
}

// Accelerate's mesh: FSDP2 with tensor and context parallelism.
std::vector<KeyRow> MeshRows() {
  return {
      Reads("use_parallelism_config"),
      Reads("parallelism_config.parallelism_config_dp_replicate_size"),
      Reads("parallelism_config.parallelism_config_dp_shard_size"),
      Reads("parallelism_config.parallelism_config_tp_size"),
      Reads("parallelism_config.parallelism_config_cp_size"),
      Reads("parallelism_config.parallelism_config_cp_comm_strategy"),
      NoEffect("parallelism_config.parallelism_config_cp_backend", "torch is the only one"),
      Refuses("parallelism_config.parallelism_config_sp_size", {"1"},
              "DeepSpeed's sequence parallelism beside the mesh; sequence_parallel_size in a file "
              "of DeepSpeed says it"),
      NoEffect("parallelism_config.parallelism_config_sp_*", "only with sp_size above 1"),
  };
}

}  // namespace

const std::vector<KeyRow>& AccelerateRows() {
  static const std::vector<KeyRow> rows =
      Joined({RunRows(), FsdpRows(), OtherLibraryRows(), MeshRows()});
  return rows;
}

}  // namespace stepsim
