// Did the call work? Every return code of CUDA, cuBLASLt and NCCL goes through one of these.
//
//   CheckCuda(cudaMalloc(&p, n), "cudaMalloc");
//   // MeasureError: cudaMalloc returned 2 (cudaErrorMemoryAllocation): out of memory
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace stepsim::measure {

void CheckCuda(cudaError_t code, const char* call);
void CheckCublas(cublasStatus_t code, const char* call);
void CheckNccl(ncclResult_t code, const char* call);

// For destructors, which must not throw: what went wrong has been said already.
inline void Ignore(int) {}

}  // namespace stepsim::measure
