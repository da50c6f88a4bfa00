// Does it fit? Bytes on each GPU, by category. Equations: models/README.md, "Memory".
//
//   AdamW, fp32, DDP, N parameters: parameters 4N, buckets 4N, optimizer_states 8N for the whole
//   step, and gradients 4N from backward to the end of the optimizer
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// What is alive for the whole step, in table order: parameters, gradients, buckets,
// optimizer_states, buffers. Every category is present, be it 0. The rest comes and goes with the
// tasks.
std::vector<std::pair<std::string, Bytes>> StaticMemory(const JobSpec& job,
                                                        const Workload& workload);

// PyTorch's cuBLAS workspace of the one stream that runs products: 32 MiB from Hopper on, before
// two of 4 MiB and eight of 16 KiB.
Bytes ProductWorkspace(const JobSpec& job);

// When does a parameter's gradient take memory of its own? (zero_grad sets gradients to none.)
struct GradientLife {
  bool is_static = false;            // buffers that live on: part of StaticMemory
  std::int64_t first_microstep = 0;  // from whose backward it lives to the end of the optimizer
  // The tensor that backward has made lives until the strategy's hook has copied it.
  bool is_copied = false;
  bool is_left_to_strategy = false;  // which tells itself of tensors that backward has made
};
GradientLife GradientLifeOf(const JobSpec& job);

// What the optimizer's step takes for itself: torch's foreach AdamW makes one list of tensors as
// large as the parameters it works on; Megatron casts the gradients of a master copy.
Bytes OptimizerWorkspace(const JobSpec& job, const Workload& workload);

}  // namespace stepsim
