#include "models/spec/hardware.h"

namespace stepsim {

FlopRate PeakOf(const GpuSpec& gpu, DType dtype) {
  switch (dtype) {
    case DType::kTf32:
      return gpu.peak.tf32;
    case DType::kBf16:
      return gpu.peak.bf16;
    case DType::kFp16:
      return gpu.peak.fp16;
    case DType::kFp8:
      return gpu.peak.fp8;
    case DType::kFp32:
    case DType::kInt32:
    case DType::kInt64:
      break;  // no integer products in training: the ordinary units
  }
  return gpu.peak.fp32;
}

}  // namespace stepsim
