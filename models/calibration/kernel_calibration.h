// What do measured kernels say of a GPU? Puts fitted values into a hardware profile in place of its
// own, and says how well they fit.
//
//   HardwareSpec fitted = base;
//   FitGemms(measurements.gemms, fitted, records);
//
// What the measurements say nothing about stays as it was.
#pragma once

#include <vector>

#include "models/calibration/measurements.h"
#include "models/spec/hardware.h"
#include "models/spec/host_spec.h"

namespace stepsim {

// The work of a measured product or attention as the cost model takes it.
ComputeWork WorkOf(const MeasuredGemm& gemm);
ComputeWork WorkOf(const MeasuredAttention& attention);

// With this many products of a type a curve is fitted; with fewer the profile's is scaled.
inline constexpr std::size_t kFewestForACurve = 25;

void FitGemms(const std::vector<MeasuredGemm>& gemms, HardwareSpec& fitted,
              std::vector<FitRecord>& records);
// gpu.memory_efficiency and gpu.kernel_latency: time = latency + bytes / (bandwidth x efficiency).
void FitMemoryKernels(const std::vector<MeasuredMemory>& kernels, HardwareSpec& fitted,
                      std::vector<FitRecord>& records);
// Attention that ran as one kernel; what ran as products and a softmax is left out.
void FitAttention(const std::vector<MeasuredAttention>& calls, HardwareSpec& fitted,
                  std::vector<FitRecord>& records);
// host.event_handover and, where no memory-bound kernels tell it, gpu.kernel_latency. A launch by
// itself is noted only: most of a launch's time is the framework's.
void FitLaunches(const std::vector<MeasuredLaunch>& launches, bool has_memory_kernels,
                 HardwareSpec& fitted, HostSpec& host, std::vector<FitRecord>& records);

}  // namespace stepsim
