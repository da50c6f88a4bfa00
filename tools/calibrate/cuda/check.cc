#include "tools/calibrate/cuda/check.h"

#include <fmt/format.h>

#include "tools/calibrate/backend.h"

namespace stepsim::measure {

void CheckCuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw MeasureError(fmt::format("{} returned {} ({}): {}", call, static_cast<int>(code),
                                 cudaGetErrorName(code), cudaGetErrorString(code)));
}

void CheckCublas(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw MeasureError(fmt::format("{} returned {} ({}): {}", call, static_cast<int>(code),
                                 cublasLtGetStatusName(code), cublasLtGetStatusString(code)));
}

void CheckNccl(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return;
  throw MeasureError(fmt::format("{} returned {}: {}; {}", call, static_cast<int>(code),
                                 ncclGetErrorString(code), ncclGetLastError(nullptr)));
}

}  // namespace stepsim::measure
