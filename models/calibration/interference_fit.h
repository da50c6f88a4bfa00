// What do kernels cost each other that run at the same time? Finds the parameters of
// models/contention under which it predicts the measured slow-downs.
#pragma once

#include <vector>

#include "models/calibration/measurements.h"
#include "models/spec/hardware.h"

namespace stepsim {

// Sets fields of fitted.gpu.contention: `sm_loss` from products beside copies that hold SMs, `gemm`
// and `communication` from products beside NCCL; `transfer_on_compute` and `compute_on_transfer`
// beside gloo or MPI. Every pair says by itself which value explains it; the median of these holds.
void FitInterference(const std::vector<MeasuredInterference>& pairs, HardwareSpec& fitted,
                     std::vector<FitRecord>& records);

// How much slower the contention model says that the first (the second) of a pair becomes.
struct Slowdown {
  double compute = 1, beside = 1;
};
Slowdown PredictSlowdown(const MeasuredInterference& pair, const HardwareSpec& hardware);

}  // namespace stepsim
