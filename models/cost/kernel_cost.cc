#include "models/cost/kernel_cost.h"

#include <algorithm>
#include <cmath>

#include "models/cost/attention_cost.h"
#include "models/cost/gemm_cost.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

double Real(std::int64_t n) { return static_cast<double>(n); }

// The memory system and the launch, beside what the SMs do in `compute` seconds.
void Combine(KernelCost& cost, double compute, double memory, double latency) {
  cost.bound = compute > memory ? "compute" : "memory";
  const double body = std::max(compute, memory);
  if (latency > body) cost.bound = "latency";
  cost.seconds = body + latency;
}

KernelCost PriceGemm(const ComputeWork& work, const GpuSpec& gpu, const GemmCurve& curve,
                     std::int64_t sms) {
  KernelCost cost;
  const GemmTime time = TimeOnSms(work, gpu, curve, sms);
  cost.tiles = time.tiles;
  cost.partial_wave = curve.tail;
  cost.residual = curve.residual;
  const bool is_own = curve.dtype == work.dtype ||
                      (ElementSize(curve.dtype).value == 2 && ElementSize(work.dtype).value == 2);
  cost.is_extrapolated = !is_own || work.flops < curve.smallest ||
                         (curve.largest.value > 0 && work.flops > curve.largest);
  const double memory = curve.memory_efficiency.value_or(gpu.memory_efficiency);
  Combine(cost, time.seconds, ToDouble(work.bytes) / (gpu.hbm_bandwidth.value * memory),
          work.kernels * ToSeconds(curve.latency.value_or(gpu.kernel_latency)));
  return cost;
}

double FlopSeconds(const ComputeWork& work, const GpuSpec& gpu, std::int64_t sms) {
  if (work.flops.value <= 0) return 0;
  if (work.compute_class == ComputeClass::kAttention && work.m > 0) {
    return AttentionSeconds(work, gpu, sms);
  }
  double efficiency = 1;  // vector units: such kernels are bound by bytes
  if (work.compute_class == ComputeClass::kGemm) {
    efficiency = gpu.gemm_efficiency;
    // Without a shape (a convolution): as long a k as a cube of these FLOPs has, no waves.
    if (const GemmCurve* curve = FindGemmCurve(gpu, work.dtype)) {
      const double side = std::cbrt(work.flops.value / 2);
      efficiency *= curve->efficiency * side / (side + curve->k_overhead);
    }
  }
  if (work.compute_class == ComputeClass::kAttention) efficiency = gpu.attention_efficiency;
  return work.flops.value / (PeakOf(gpu, work.dtype).value * efficiency) * Real(gpu.sms) /
         Real(sms);
}

}  // namespace

const GemmCurve* FindGemmCurve(const GpuSpec& gpu, DType dtype) {
  const auto find = [&](auto is_wanted) -> const GemmCurve* {
    const auto curve = std::find_if(gpu.gemm.begin(), gpu.gemm.end(),
                                    [&](const GemmCurve& c) { return is_wanted(c.dtype); });
    return curve == gpu.gemm.end() ? nullptr : &*curve;
  };
  if (const GemmCurve* own = find([&](DType d) { return d == dtype; })) return own;
  if (dtype == DType::kFp32) return nullptr;
  return find([](DType d) { return ElementSize(d).value == 2; });
}

KernelCost PriceKernel(const ComputeWork& work, const GpuSpec& gpu) {
  return PriceKernel(work, gpu, gpu.sms);
}

KernelCost PriceKernel(const ComputeWork& work, const GpuSpec& gpu, std::int64_t sms) {
  SIM_CHECK(sms >= 1 && sms <= gpu.sms, "a kernel runs on some of the GPU's SMs");
  SIM_CHECK(work.flops.value <= 0 || PeakOf(gpu, work.dtype).value > 0,
            "the GPU has no unit for products of this type");
  if (work.compute_class == ComputeClass::kGemm && work.m > 0 && work.measured == 0) {
    if (const GemmCurve* curve = FindGemmCurve(gpu, work.dtype)) {
      return PriceGemm(work, gpu, *curve, sms);
    }
  }
  KernelCost cost;
  if (work.measured > 0) {
    cost.seconds = ToSeconds(Duration(work.measured));
    cost.bound = "measured";
    return cost;
  }
  const Duration latency = work.compute_class == ComputeClass::kAttention
                               ? gpu.attention.latency.value_or(gpu.kernel_latency)
                               : gpu.kernel_latency;
  if (work.compute_class == ComputeClass::kAttention) {
    cost.residual = gpu.attention.residual;
    cost.is_extrapolated =
        cost.residual > 0 && work.m > 0 && !IsMeasuredAttention(work, gpu.attention);
  }
  Combine(cost, FlopSeconds(work, gpu, sms),
          ToDouble(work.bytes) / (gpu.hbm_bandwidth.value * gpu.memory_efficiency),
          work.kernels * ToSeconds(latency));
  return cost;
}

}  // namespace stepsim
