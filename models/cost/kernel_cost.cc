#include "models/cost/kernel_cost.h"

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {
namespace {

double Efficiency(ComputeClass compute_class, const GpuSpec& gpu) {
  switch (compute_class) {
    case ComputeClass::kGemm:
      return gpu.gemm_efficiency;
    case ComputeClass::kAttention:
      return gpu.attention_efficiency;
    case ComputeClass::kMemory:
      break;
  }
  return 1;  // vector units: such kernels are bound by bytes
}

}  // namespace

KernelCost PriceKernel(const ComputeWork& work, const GpuSpec& gpu) {
  KernelCost cost{.bound = "memory"};
  cost.seconds = ToDouble(work.bytes) / (gpu.hbm_bandwidth.value * gpu.memory_efficiency);
  if (work.flops.value > 0) {
    const FlopRate peak = PeakOf(gpu, work.dtype);
    SIM_CHECK(peak.value > 0, "the GPU has no unit for products of this type");
    const double compute = work.flops.value / (peak.value * Efficiency(work.compute_class, gpu));
    if (compute > cost.seconds) cost.bound = "compute";
    cost.seconds = std::max(cost.seconds, compute);
  }
  cost.seconds += work.kernels * ToSeconds(gpu.kernel_latency);
  return cost;
}

}  // namespace stepsim
