// Does it fit? Bytes on each GPU, by category. Equations: models/README.md, "Memory".
//
//   AdamW, fp32, DDP, N parameters: parameters 4N, gradients 4N, buckets 4N (0 with
//   gradient_as_bucket_view), optimizer_states 8N
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// What is alive for the whole step, largest moment of it, in table order: parameters, gradients,
// buckets, optimizer_states, buffers. Every category is present, be it 0. Activations come and go
// with the operators: Workload::saved_bytes() is their sum at the end of forward.
std::vector<std::pair<std::string, Bytes>> StaticMemory(const JobSpec& job,
                                                        const Workload& workload);

}  // namespace stepsim
