// DeepSpeed ZeRO and Megatron-LM's data parallelism: their knobs with their defaults. Sizes of
// buckets and thresholds are in elements, as there. Schedules: models/README.md, "ZeRO" and
// "Megatron data parallel".
#pragma once

#include <cstdint>
#include <optional>

#include "sim/base/dtype.h"

namespace stepsim {

struct ZeroPlan {
  std::int64_t stage = 2;
  std::optional<bool> overlap_comm;  // unset: true for stage 3, false for 1 and 2
  std::int64_t reduce_bucket_size = 500'000'000;
  bool use_multi_rank_bucket_allreduce = true;  // stages 1, 2: all_reduce instead of reduces
  std::int64_t stage3_prefetch_bucket_size = 50'000'000;
  std::int64_t stage3_max_live_parameters = 1'000'000'000;
  std::int64_t stage3_max_reuse_distance = 1'000'000'000;
  std::int64_t stage3_param_persistence_threshold = 100'000;
  bool stage3_allgather_sequential = false;
  std::optional<DType> communication_data_type;  // unset: the type of gradients

  bool overlaps() const { return overlap_comm.value_or(stage == 3); }
};

struct MegatronPlan {
  bool use_distributed_optimizer = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  std::optional<std::int64_t> ddp_bucket_size;  // unset: max(40e6, 1e6 x data parallel size)
  bool average_in_collective = false;
  std::optional<bool> grad_reduce_in_fp32;  // unset: true for bf16, as the launcher has it
};

}  // namespace stepsim
