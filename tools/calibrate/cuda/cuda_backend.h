// NVIDIA GPUs: cuBLASLt computes, NCCL communicates. One process per GPU.
#pragma once

#include <memory>
#include <string>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/peers.h"

namespace stepsim::measure {

// What is missing for this backend, as a sentence; asked before any call of CUDA.
std::string MissingCuda();

std::unique_ptr<Backend> OpenCudaBackend(Peers& peers);

}  // namespace stepsim::measure
