// DeepSpeed ZeRO and Megatron-LM's data parallelism: their knobs with their defaults. Sizes of
// buckets and thresholds are in elements, as there. Schedules: models/README.md, "ZeRO" and
// "Megatron data parallel".
#pragma once

#include <cstdint>
#include <optional>

#include "models/spec/training_iteration.h"
#include "sim/base/dtype.h"

namespace stepsim {

// Modules of stage 3 that are fetched with everything below them.
enum class LeafModules { kNone, kLayers };

struct ZeroPlan {
  std::int64_t stage = 2;
  std::optional<bool> overlap_comm;  // unset: true for stage 3, false for 1 and 2
  std::int64_t reduce_bucket_size = 500'000'000;
  bool reduce_scatter = true;
  bool contiguous_gradients = true;
  std::optional<DType> communication_data_type;  // unset: the type of gradients

  // Stages 1 and 2.
  bool use_multi_rank_bucket_allreduce = true;  // all_reduce instead of reduces
  bool round_robin_gradients = false;
  bool allgather_partitions = true;
  bool allgather_into_tensor = true;  // false: the fallback of older PyTorch
  std::int64_t allgather_bucket_size = 500'000'000;

  // Stage 3.
  TrainingIteration iteration = TrainingIteration::kSteady;
  std::int64_t stage3_prefetch_bucket_size = 50'000'000;
  std::int64_t stage3_max_live_parameters = 1'000'000'000;
  std::int64_t stage3_max_reuse_distance = 1'000'000'000;
  std::int64_t stage3_param_persistence_threshold = 100'000;
  std::int64_t stage3_module_granularity_threshold = 0;
  LeafModules stage3_leaf_modules = LeafModules::kNone;
  bool stage3_allgather_sequential = false;
  std::int64_t sub_group_size = 1'000'000'000;
  std::int64_t zero_hpz_partition_size = 1;
  bool separate_reduce_group = false;  // reductions on a communicator of their own

  bool overlaps() const { return overlap_comm.value_or(stage == 3); }
  bool is_first_iteration() const { return iteration == TrainingIteration::kFirst; }
};

// Stages 1 and 2: every part of a bucket goes to the rank that owns it, and to no other.
constexpr bool ReducesToOwners(const ZeroPlan& plan) {
  return plan.contiguous_gradients && plan.reduce_scatter && !plan.use_multi_rank_bucket_allreduce;
}

struct MegatronPlan {
  bool use_distributed_optimizer = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  std::optional<std::int64_t> ddp_bucket_size;  // unset: max(40e6, 1e6 x data parallel size)
  std::optional<std::int64_t> ddp_num_buckets;
  bool pad_buckets_for_high_nccl_busbw = false;
  bool average_in_collective = false;
  std::optional<bool> grad_reduce_in_fp32;  // unset: true for bf16, as the launcher has it
  bool reduce_scatter_with_fp32_accumulation = false;
  std::int64_t num_distributed_optimizer_instances = 1;
  bool fp8_param_gather = false;  // weights of the layers' products are kept and gathered in fp8
  TrainingIteration iteration = TrainingIteration::kSteady;

  // Without effect as long as there are no interleaved pipelines.
  bool align_param_gather = true;
  bool align_grad_reduce = true;
  bool overlap_param_gather_with_optimizer_step = false;

  bool is_first_iteration() const { return iteration == TrainingIteration::kFirst; }
};

}  // namespace stepsim
