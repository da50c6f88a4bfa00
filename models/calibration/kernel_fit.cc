#include "models/calibration/kernel_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "models/calibration/error_statistics.h"
#include "models/calibration/minimize.h"
#include "models/cost/kernel_cost.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// One free parameter: how it is written into the curve, where it starts, its range.
struct Knob {
  void (*set)(GemmCurve& curve, double value);
  double start, low, high;
};

const std::vector<GemmTile> kTiles = {
    {256, 128, 1}, {128, 128, 0.85}, {128, 64, 0.7}, {64, 64, 0.6}, {64, 32, 0.5}};

template <std::size_t kIndex>
void SetTile(GemmCurve& curve, double value) {
  curve.tiles[kIndex].efficiency = value;
}

bool Any(std::span<const KernelPoint> points, bool (*holds)(const ComputeWork&)) {
  constexpr std::ptrdiff_t kEnough = 8;
  return std::count_if(points.begin(), points.end(),
                       [&](const KernelPoint& p) { return holds(p.work); }) >= kEnough;
}

// Only what the points can tell: a layout that nobody measured keeps its factor of 1.
std::vector<Knob> KnobsFor(std::span<const KernelPoint> points) {
  std::vector<Knob> knobs = {
      {[](GemmCurve& c, double v) { c.efficiency = v; }, 0.75, 0.05, 1},
      {[](GemmCurve& c, double v) { c.tail = v; }, 0.5, 0, 1},
      {[](GemmCurve& c, double v) { c.k_overhead = v; }, 150, 0, 1500},
      {[](GemmCurve& c, double v) { c.latency = Duration(std::llround(v * 1e6)); }, 4, 1.5, 12},
      {[](GemmCurve& c, double v) { c.memory_efficiency = v; }, 0.8, 0.3, 0.95},
      {SetTile<1>, kTiles[1].efficiency, 0.2, 1},
      {SetTile<2>, kTiles[2].efficiency, 0.2, 1},
      {SetTile<3>, kTiles[3].efficiency, 0.2, 1},
      {SetTile<4>, kTiles[4].efficiency, 0.2, 1}};
  if (Any(points, [](const ComputeWork& w) { return w.pass == Pass::kInputGradient; })) {
    knobs.push_back({[](GemmCurve& c, double v) { c.input_gradient = v; }, 1, 0.7, 1.4});
  }
  if (Any(points, [](const ComputeWork& w) { return w.pass == Pass::kWeightGradient; })) {
    knobs.push_back({[](GemmCurve& c, double v) { c.weight_gradient = v; }, 1, 0.7, 1.4});
  }
  const auto is_mixed = [](const ComputeWork& w) {
    return w.output == DType::kFp32 && w.dtype != DType::kFp32;
  };
  // Told apart from the layout only where weight gradients come in both types.
  if (Any(points, is_mixed) && Any(points, [](const ComputeWork& w) {
        return w.output != DType::kFp32 && w.pass == Pass::kWeightGradient;
      })) {
    knobs.push_back({[](GemmCurve& c, double v) { c.fp32_output = v; }, 1, 0.7, 1.2});
  }
  return knobs;
}

// The range as a real line: x = 0 is the start.
double ValueOf(const Knob& knob, double x) {
  const double start = (knob.start - knob.low) / (knob.high - knob.low);
  const double logit = std::log(start / (1 - start)) + x;
  return knob.low + (knob.high - knob.low) / (1 + std::exp(-logit));
}

class Fit {
 public:
  Fit(std::span<const KernelPoint> points, const GpuSpec& gpu, DType dtype)
      : points_(points), gpu_(gpu), knobs_(KnobsFor(points)) {
    gpu_.gemm = {GemmCurve{}};
    gpu_.gemm.front().dtype = dtype;
    gpu_.gemm.front().tiles = kTiles;
    gpu_.gemm_efficiency = 1;
  }

  GemmCurve Run() {
    double best = 0;
    GemmCurve chosen;
    for (const std::int64_t split : {1, 4, 64}) {
      gpu_.gemm.front().split_k = split;
      const std::vector<double> x =
          Minimize([this](const std::vector<double>& at) { return Loss(at); },
                   std::vector<double>(knobs_.size(), 0.0), {.step = 0.4});
      const double loss = Loss(x);
      // More freedom must earn its place.
      if (split > 1 && loss > 0.98 * best) continue;
      best = loss;
      chosen = gpu_.gemm.front();
    }
    return chosen;
  }

 private:
  double Loss(const std::vector<double>& x) {
    constexpr double kQuadraticBelow = 0.02;  // of an error; linear above
    constexpr double kPull = 2e-4;            // towards the start
    double loss = 0;
    for (std::size_t i = 0; i < knobs_.size(); ++i) {
      knobs_[i].set(gpu_.gemm.front(), ValueOf(knobs_[i], x[i]));
      loss += kPull * x[i] * x[i];
    }
    double sum = 0;
    for (const KernelPoint& point : points_) {
      const double error = std::log(PriceKernel(point.work, gpu_).seconds / point.seconds);
      sum += std::hypot(error, kQuadraticBelow);
    }
    return loss + sum / static_cast<double>(points_.size());
  }

  std::span<const KernelPoint> points_;
  GpuSpec gpu_;  // holds the curve that is tried
  std::vector<Knob> knobs_;
};

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
Shape ShapeOf(const ComputeWork& work) { return {work.m, work.n, work.k}; }

}  // namespace

GemmCurve FitGemmCurve(std::span<const KernelPoint> points, const GpuSpec& gpu, DType dtype) {
  SIM_CHECK(!points.empty(), "a fit needs points");
  GemmCurve curve = Fit(points, gpu, dtype).Run();
  curve.smallest = curve.largest = points.front().work.flops;
  for (const KernelPoint& point : points) {
    curve.smallest = std::min(curve.smallest, point.work.flops);
    curve.largest = std::max(curve.largest, point.work.flops);
  }
  GpuSpec fitted = gpu;
  fitted.gemm_efficiency = 1;
  fitted.gemm = {curve};
  std::vector<double> seconds;
  for (const KernelPoint& point : points) {
    seconds.push_back(PriceKernel(point.work, fitted).seconds);
  }
  curve.residual = MedianError(points, seconds);
  curve.efficiency /= gpu.gemm_efficiency;
  return curve;
}

std::vector<double> PredictLeftOut(std::span<const KernelPoint> points, const GpuSpec& gpu,
                                   DType dtype, std::size_t folds) {
  SIM_CHECK(folds >= 2, "someone must stay to fit");
  std::map<Shape, std::size_t> hand;
  for (const KernelPoint& point : points) hand.emplace(ShapeOf(point.work), 0);
  // Dealt with a stride, since neighbours in the order of sizes resemble each other.
  std::size_t next = 0;
  for (auto& [shape, fold] : hand) fold = next++ % folds;
  std::vector<double> seconds(points.size(), 0);
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<KernelPoint> kept;
    for (const KernelPoint& point : points) {
      if (hand.at(ShapeOf(point.work)) != fold) kept.push_back(point);
    }
    if (kept.empty() || kept.size() == points.size()) continue;
    GpuSpec fitted = gpu;
    fitted.gemm = {FitGemmCurve(kept, gpu, dtype)};
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (hand.at(ShapeOf(points[i].work)) != fold) continue;
      seconds[i] = PriceKernel(points[i].work, fitted).seconds;
    }
  }
  return seconds;
}

double MedianError(std::span<const KernelPoint> points, std::span<const double> seconds) {
  SIM_CHECK(!points.empty() && points.size() == seconds.size(), "one prediction for each point");
  std::vector<double> errors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    errors.push_back(std::abs(seconds[i] / points[i].seconds - 1));
  }
  return Quantile(std::move(errors), 0.5);
}

}  // namespace stepsim
