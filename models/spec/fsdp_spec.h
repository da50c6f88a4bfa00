// Fully sharded data parallelism: the knobs of PyTorch's FSDP1 and FSDP2 (fully_shard), with the
// defaults of torch 2.x. Schedules: models/README.md, "FSDP2" and "FSDP1".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/spec/training_iteration.h"
#include "sim/base/dtype.h"

namespace stepsim {

// Which modules become a unit that is gathered and reduced as one.
enum class WrapPolicy {
  kLayer,          // every layer of the network; embeddings, last norm and head stay with the root
  kMinParameters,  // consecutive modules until they hold wrap_min_parameters
  kCustom,         // as wrap_modules says
};

struct Fsdp2Plan {
  WrapPolicy wrap = WrapPolicy::kLayer;
  std::int64_t wrap_min_parameters = 100'000'000;
  std::vector<std::string> wrap_modules;  // "layers.*", "final_norm+head": wrap_modules.h
  // "auto": true for every group but the root; "true", "false", or an integer k that leaves each
  // group sharded over k ranks between forward and backward.
  std::string reshard_after_forward = "auto";
  std::vector<std::string> keep_after_forward;  // groups with reshard_after_forward=False
  std::int64_t forward_prefetch = 0;   // groups gathered ahead by set_modules_to_forward_prefetch
  std::int64_t backward_prefetch = 1;  // groups gathered ahead in backward; 1: implicit
  // Instead: every layer names the next one and its experts (torchtitan); unset: with experts that
  // are dealt out, whose host waits would delay what FSDP2 does by itself.
  std::optional<bool> layer_prefetch;
  std::optional<DType> param_dtype;              // of gathers and compute; unset: precision.compute
  std::optional<DType> reduce_dtype;             // of reduce_scatters; unset: param_dtype
  std::optional<double> gradient_divide_factor;  // unset: the ranks
  std::int64_t shard_size = 0;                   // ranks that share one copy (HSDP); 0: all
  // What the setters say during all micro-steps but the last, in which all are true.
  bool requires_gradient_sync = true;  // reduce
  bool requires_all_reduce = true;     // HSDP: sum over the copies
  bool reshard_after_backward = true;
  bool is_last_backward = true;        // wait for the reductions at the end of backward
  bool unshard_in_backward = true;     // of a first group whose backward reads no parameters
  bool unshard_async_op = false;       // gathers through the process group's own stream
  bool cpu_offload = false;            // not modelled
  bool separate_reduce_group = false;  // reduce_scatters on a communicator of their own
};

enum class ShardingStrategy { kFullShard, kShardGradOp, kNoShard, kHybridShard, kHybridShardZero2 };
constexpr bool IsHybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::kHybridShard ||
         strategy == ShardingStrategy::kHybridShardZero2;
}
// Free parameters after forward and gather them again in backward?
constexpr bool ReshardsAfterForward(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::kFullShard || strategy == ShardingStrategy::kHybridShard;
}
enum class BackwardPrefetch { kPre, kPost, kNone };

struct Fsdp1Plan {
  WrapPolicy wrap = WrapPolicy::kLayer;
  std::int64_t wrap_min_parameters = 100'000'000;
  std::vector<std::string> wrap_modules;
  ShardingStrategy sharding_strategy = ShardingStrategy::kFullShard;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  bool forward_prefetch = false;
  bool limit_all_gathers = true;
  std::optional<DType> param_dtype;   // unset: precision.compute
  std::optional<DType> reduce_dtype;  // unset: param_dtype
  std::optional<DType> buffer_dtype;  // moves nothing in a step
  bool use_orig_params = false;       // moves nothing in a step
  bool cpu_offload = false;           // not modelled
  std::int64_t shard_size = 0;        // hybrid strategies: ranks of one copy; 0: a node
  TrainingIteration iteration = TrainingIteration::kSteady;
  bool no_sync = true;  // accumulate without reducing in between
  bool separate_reduce_group = false;
};

}  // namespace stepsim
