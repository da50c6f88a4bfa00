// Fully sharded data parallelism: the knobs of PyTorch's FSDP1 and FSDP2 (fully_shard), with the
// defaults of torch 2.x. Schedules: models/README.md, "FSDP2" and "FSDP1".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/dtype.h"

namespace stepsim {

// Which modules become a unit that is gathered and reduced as one.
enum class WrapPolicy {
  kLayer,          // every layer of the network; embeddings, last norm and head stay with the root
  kMinParameters,  // consecutive modules until they hold wrap_min_parameters
};

struct Fsdp2Plan {
  WrapPolicy wrap = WrapPolicy::kLayer;
  std::int64_t wrap_min_parameters = 100'000'000;
  // "auto": true for every group but the root; "true", "false", or an integer k that leaves each
  // group sharded over k ranks between forward and backward.
  std::string reshard_after_forward = "auto";
  std::int64_t forward_prefetch = 0;   // groups gathered ahead by set_modules_to_forward_prefetch
  std::int64_t backward_prefetch = 1;  // groups gathered ahead in backward; 1: implicit
  std::optional<DType> param_dtype;    // of gathers and compute; unset: precision.compute
  std::optional<DType> reduce_dtype;   // of reduce_scatters; unset: param_dtype
  std::int64_t shard_size = 0;         // ranks that share one copy (HSDP); 0: all
  bool requires_gradient_sync = true;  // reduce in every micro-step, as without set_requires_...
  bool requires_all_reduce = true;     // HSDP: all_reduce in every micro-step that reduces
  bool reshard_after_backward = true;
  bool separate_reduce_group = false;  // reduce_scatters on a communicator of their own
};

enum class ShardingStrategy { kFullShard, kShardGradOp, kNoShard, kHybridShard, kHybridShardZero2 };
constexpr bool IsHybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::kHybridShard ||
         strategy == ShardingStrategy::kHybridShardZero2;
}
enum class BackwardPrefetch { kPre, kPost, kNone };

struct Fsdp1Plan {
  WrapPolicy wrap = WrapPolicy::kLayer;
  std::int64_t wrap_min_parameters = 100'000'000;
  ShardingStrategy sharding_strategy = ShardingStrategy::kFullShard;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  bool forward_prefetch = false;
  bool limit_all_gathers = true;
  std::optional<DType> param_dtype;   // unset: precision.compute
  std::optional<DType> reduce_dtype;  // unset: param_dtype
  std::int64_t shard_size = 0;        // hybrid strategies: ranks of one copy; 0: a node
  bool no_sync = true;                // accumulate without reducing in between
  bool separate_reduce_group = false;
};

}  // namespace stepsim
