// How long does one kernel take when it has the GPU to itself? Equations and evidence:
// models/README.md, "Kernels" and "Attention".
//
//   PriceKernel(GemmWork(DType::kBf16, 4096, 4096, 4096), gpu).seconds
//   PriceKernel(work, gpu, gpu.sms - 24)   beside a collective that holds 24 SMs
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/spec/hardware.h"
#include "sim/graph/work.h"

namespace stepsim {

struct KernelCost {
  double seconds = 0;
  double tiles = 0;  // thread blocks, one on an SM at a time; 0: rate follows the SMs smoothly
  std::optional<double> partial_wave;  // of tiles: a nearly empty last wave over a full one
  std::string_view bound;  // what sets the time: "compute", "memory", "latency", or "measured"
  double residual = 0;     // expected |error| as a fraction; 0: unknown
  bool is_extrapolated = false;  // outside the shapes that the curve was fitted to
};

// REQUIRES: the GPU has a unit for products of work.dtype (checked with the job).
KernelCost PriceKernel(const ComputeWork& work, const GpuSpec& gpu);
// On some of the SMs only. REQUIRES: 1 <= sms <= gpu.sms.
KernelCost PriceKernel(const ComputeWork& work, const GpuSpec& gpu, std::int64_t sms);

// The curve that holds for operands of a type: its own, else that of a 16-bit type, whose tiles and
// instructions tf32 and fp8 share; fp32 borrows none. nullptr: none, the efficiency is constant.
const GemmCurve* FindGemmCurve(const GpuSpec& gpu, DType dtype);

}  // namespace stepsim
