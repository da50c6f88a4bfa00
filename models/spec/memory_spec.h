// What is kept, what is computed again, and what the memory of a GPU is charged with besides
// tensors. Equations and the sources of the defaults: models/README.md, "Recomputation" and
// "Memory".
#pragma once

#include <cstdint>
#include <optional>

#include "sim/base/quantity.h"

namespace stepsim {

enum class RecomputeGranularity { kNone, kSelective, kFull };
// full: which layers. uniform: all, num_layers to a checkpoint; block: the first num_layers alone.
enum class RecomputeMethod { kUniform, kBlock };
// selective: the policy. modules: parts of a layer (Megatron); op: all but the results of attention
// and of every second matrix product; layer: every num_layers-th layer as a whole (torchtitan).
enum class RecomputePolicy { kModules, kOp, kLayer };

// selective, modules: parts of a layer.
struct RecomputeModules {
  bool core_attn = true;   // attention between its projections
  bool mlp = false;        // the linears of the MLP and what lies between them
  bool layernorm = false;  // what norms write
  bool moe = false;        // a mixture of experts, with its exchanges
};

struct RecomputeSpec {
  RecomputeGranularity granularity = RecomputeGranularity::kNone;
  RecomputeMethod method = RecomputeMethod::kUniform;
  std::int64_t num_layers = 1;
  RecomputePolicy policy = RecomputePolicy::kModules;
  RecomputeModules modules;
  bool early_stop = false;  // stop when everything that backward needs is there

  bool IsOn() const { return granularity != RecomputeGranularity::kNone; }
  bool IsFull() const { return granularity == RecomputeGranularity::kFull; }
  bool IsSelective(RecomputePolicy by) const {
    return granularity == RecomputeGranularity::kSelective && policy == by;
  }
};

struct MemorySpec {
  // Of what comes and goes in a step: the allocator's blocks are larger than their tensors, and
  // holes stay empty.
  double allocator_slack = 1.05;
  Bytes context{std::int64_t{512} << 20};       // of CUDA: kernels, stacks, page tables
  Bytes communicator{std::int64_t{512} << 20};  // of NCCL, for each process group that is used
  std::optional<Bytes> limit;                   // unset: the GPU's
  bool fail_on_oom = false;
};

}  // namespace stepsim
