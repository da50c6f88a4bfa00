// How is each task measured on one GPU? What needs no other process.
#pragma once

#include <memory>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/cuda/lt_gemm.h"

namespace stepsim::measure {

std::unique_ptr<Prepared> PrepareCudaLaunch(const LaunchTask& task);
std::unique_ptr<Prepared> PrepareCudaGemm(const LtHandle& handle, const GemmTask& task);
std::unique_ptr<Prepared> PrepareCudaMemory(const MemoryTask& task);
std::unique_ptr<Prepared> PrepareCudaAttention(const LtHandle& handle, const AttentionTask& task);

}  // namespace stepsim::measure
