// How long does one kernel take when it has the GPU to itself? Equations and evidence:
// models/README.md, "Kernels".
#pragma once

#include <string_view>

#include "models/spec/hardware.h"
#include "sim/graph/work.h"

namespace stepsim {

struct KernelCost {
  double seconds = 0;
  double tiles = 0;              // thread blocks of a static grid; 0: rate follows the SMs smoothly
  double tiles_per_sm = 1;       // resident at a time
  std::string_view bound;        // what sets the time: "compute", "memory" or "latency"
  double residual = 0;           // expected |error| as a fraction; 0: unknown
  bool is_extrapolated = false;  // outside the shapes that the curve was fitted to
};

// REQUIRES: the GPU has a unit for products of work.dtype (checked with the job).
KernelCost PriceKernel(const ComputeWork& work, const GpuSpec& gpu);

}  // namespace stepsim
