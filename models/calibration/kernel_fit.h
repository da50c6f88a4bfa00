// How do a GPU's matrix products depend on their shape? Fits one curve to measured times; the same
// points always give the same curve.
//
//   const GemmCurve curve = FitGemmCurve(points, gpu, DType::kBf16);
//   const std::vector<double> seconds = PredictLeftOut(points, gpu, DType::kBf16, 5);
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/spec/hardware.h"
#include "sim/graph/work.h"

namespace stepsim {

struct KernelPoint {
  ComputeWork work;  // a matrix product with its shape
  double seconds = 0;
};

// Robust least squares on the logarithm of the times: few bad points hardly pull. Parameters that
// the points say nothing about stay near a neutral start; gpu.gemm is not looked at. The residual
// is the median |error| on these very points. REQUIRES: points not empty, positive times.
GemmCurve FitGemmCurve(std::span<const KernelPoint> points, const GpuSpec& gpu, DType dtype);

// Every point predicted by a curve fitted without it: shapes (m, n, k) are dealt to `folds` hands,
// and all points of one shape leave together. REQUIRES: folds >= 2.
std::vector<double> PredictLeftOut(std::span<const KernelPoint> points, const GpuSpec& gpu,
                                   DType dtype, std::size_t folds);

// Median of |predicted / measured - 1|. REQUIRES: as many predictions as points, at least one.
double MedianError(std::span<const KernelPoint> points, std::span<const double> seconds);

}  // namespace stepsim
