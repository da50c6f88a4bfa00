#include "models/calibration/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "models/calibration/curve_fit.h"
#include "models/calibration/interference_fit.h"
#include "models/calibration/kernel_calibration.h"

namespace stepsim {
namespace {

// Those of the base stay behind: the first that matches holds.
template <class T>
void PutBefore(std::vector<T> fitted, std::vector<T>& list) {
  std::move(list.begin(), list.end(), std::back_inserter(fitted));
  list = std::move(fitted);
}

void MoveBehind(std::vector<FitRecord>& list, std::vector<FitRecord> more) {
  std::move(more.begin(), more.end(), std::back_inserter(list));
}

// What is ten times off is no better known for being a hundred times off.
void BoundErrors(FittedCalibration& calibration) {
  const auto bound = [](double& error) {
    constexpr double kMost = 10;
    error = std::isfinite(error) ? std::min(error, kMost) : kMost;
  };
  for (FitRecord& record : calibration.about.fits) {
    bound(record.residual);
    bound(record.residual_p90);
  }
  for (CollectiveCurve& curve : calibration.hardware.collective_curves) {
    bound(curve.residual);
    bound(curve.residual_p90);
    bound(curve.latency_error);
    bound(curve.bandwidth_error);
  }
  GpuSpec& gpu = calibration.hardware.gpu;
  bound(gpu.memory_residual);
  bound(gpu.attention.residual);
  for (GemmCurve& curve : gpu.gemm) bound(curve.residual);
}

}  // namespace

FittedCalibration Calibrate(const Measurements& measurements, const HardwareSpec& base,
                            const std::string& name) {
  FittedCalibration result;
  result.about = measurements.about;
  result.about.name = name;
  result.about.fitted_over = base.name;
  result.hardware = base;
  std::vector<FitRecord>& records = result.about.fits;
  FitMemoryKernels(measurements.memory, result.hardware, records);
  FitLaunches(measurements.launches, !measurements.memory.empty(), result.hardware, result.host,
              records);
  FitGemms(measurements.gemms, result.hardware, records);
  FitAttention(measurements.attention, result.hardware, records);
  CurveFits curves = FitCurves(measurements.collectives);
  PutBefore(std::move(curves.curves), result.hardware.collective_curves);
  PutBefore(std::move(curves.points), result.hardware.calibration);
  MoveBehind(records, std::move(curves.records));
  FitInterference(measurements.interference, result.hardware, records);
  BoundErrors(result);
  if (result.about.description.empty()) {
    result.about.description =
        fmt::format("{} measurements{}{}", measurements.size(),
                    measurements.about.device.empty() ? "" : " on ", measurements.about.device);
  }
  return result;
}

}  // namespace stepsim
