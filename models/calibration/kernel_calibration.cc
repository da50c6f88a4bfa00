#include "models/calibration/kernel_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "models/calibration/error_statistics.h"
#include "models/calibration/kernel_fit.h"
#include "models/calibration/minimize.h"
#include "models/calibration/robust_fit.h"
#include "models/cost/kernel_cost.h"
#include "models/workload/kernel_work.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr double kMostElements = 1e13;  // of one matrix: beyond, sizes overflow

double Real(std::int64_t n) { return static_cast<double>(n); }

bool IsPossible(const MeasuredGemm& gemm) {
  constexpr double kMostFlops = 1e18;
  return gemm.time.seconds > 0 && 2 * Real(gemm.m) * Real(gemm.n) * Real(gemm.k) < kMostFlops &&
         std::max({Real(gemm.m) * Real(gemm.n), Real(gemm.m) * Real(gemm.k),
                   Real(gemm.n) * Real(gemm.k)}) < kMostElements;
}

struct Errors {
  double median = 0, p90 = 0;
};
Errors ErrorsOf(const std::vector<KernelPoint>& points, const std::vector<double>& seconds) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    errors.push_back(std::abs(seconds[i] / points[i].seconds - 1));
  }
  return {Quantile(errors, 0.5), Quantile(errors, 0.9)};
}

std::vector<double> Predict(const std::vector<KernelPoint>& points, const GpuSpec& gpu) {
  std::vector<double> seconds;
  for (const KernelPoint& point : points) seconds.push_back(PriceKernel(point.work, gpu).seconds);
  return seconds;
}

void SetCurve(const GemmCurve& curve, GpuSpec& gpu) {
  const auto own = std::find_if(gpu.gemm.begin(), gpu.gemm.end(),
                                [&](const GemmCurve& c) { return c.dtype == curve.dtype; });
  if (own != gpu.gemm.end()) {
    *own = curve;
  } else {
    gpu.gemm.push_back(curve);
  }
}

// The profile's curve at another efficiency: all that a handful of products can tell.
GemmCurve Scaled(const std::vector<KernelPoint>& points, DType dtype, const GpuSpec& gpu) {
  GpuSpec scaled = gpu;
  const GemmCurve* known = FindGemmCurve(gpu, dtype);
  GemmCurve curve = known != nullptr ? *known : GemmCurve{};
  curve.dtype = dtype;
  if (curve.tiles.empty()) curve.tiles = {GemmTile{}};
  if (known == nullptr) curve.tail = 0;
  SetCurve(curve, scaled);
  std::vector<double> ratios;
  const std::vector<double> predicted = Predict(points, scaled);
  for (std::size_t i = 0; i < points.size(); ++i) {
    ratios.push_back(predicted[i] / points[i].seconds);
  }
  curve.efficiency = std::clamp(curve.efficiency * Quantile(ratios, 0.5), 0.001, 1000.0);
  curve.smallest = curve.largest = points.front().work.flops;
  for (const KernelPoint& point : points) {
    curve.smallest = std::min(curve.smallest, point.work.flops);
    curve.largest = std::max(curve.largest, point.work.flops);
  }
  return curve;
}

// TFLOP/s of the largest products: what people know of a GPU.
std::string RateOf(const std::vector<KernelPoint>& points) {
  double best = 0;
  for (const KernelPoint& point : points)
    best = std::max(best, point.work.flops.value / point.seconds);
  return FormatFlopRate(best);
}

void FitOneType(DType dtype, const std::vector<KernelPoint>& points, GpuSpec& gpu,
                std::vector<FitRecord>& records) {
  constexpr std::size_t kFolds = 5;
  FitRecord record;
  record.what = fmt::format("gemm {}", ToString(dtype));
  record.points = static_cast<std::int64_t>(points.size());
  GemmCurve curve;
  Errors errors;
  if (points.size() >= kFewestForACurve) {
    curve = FitGemmCurve(points, gpu, dtype);
    errors = ErrorsOf(points, PredictLeftOut(points, gpu, dtype, kFolds));
    SetCurve(curve, gpu);
    record.note = "errors of shapes left out";
  } else {
    curve = Scaled(points, dtype, gpu);
    SetCurve(curve, gpu);
    errors = ErrorsOf(points, Predict(points, gpu));
    record.note =
        fmt::format("the profile's curve scaled: a curve needs {} products", kFewestForACurve);
  }
  curve.residual = record.residual = errors.median;
  record.residual_p90 = errors.p90;
  SetCurve(curve, gpu);
  record.value = fmt::format("efficiency {:.3f}, at most {}",
                             curve.efficiency * gpu.gemm_efficiency, RateOf(points));
  record.range =
      fmt::format("{:.2g} to {:.2g} GFLOP", curve.smallest.value / 1e9, curve.largest.value / 1e9);
  records.push_back(std::move(record));
}

// ---- Attention ----

struct AttentionKnob {
  void (*set)(AttentionCurve& curve, double value);
  double start, low, high;
};

// The range as a real line, 0 is the start.
double ValueOf(const AttentionKnob& knob, double x) {
  const double start = (knob.start - knob.low) / (knob.high - knob.low);
  return knob.low + (knob.high - knob.low) / (1 + std::exp(-(std::log(start / (1 - start)) + x)));
}

std::vector<AttentionKnob> AttentionKnobs(const std::vector<KernelPoint>& points, double most) {
  std::set<std::int64_t> lengths, widths;
  bool has_forward = false, has_backward = false;
  for (const KernelPoint& point : points) {
    lengths.insert(point.work.n);
    widths.insert(point.work.k);
    (point.work.pass == Pass::kForward ? has_forward : has_backward) = true;
  }
  std::vector<AttentionKnob> knobs;
  const double start = 0.6 * most;
  if (has_forward) {
    knobs.push_back({[](AttentionCurve& c, double v) { c.forward = v; }, start, 0.01 * most, most});
  }
  if (has_backward) {
    knobs.push_back(
        {[](AttentionCurve& c, double v) { c.backward = v; }, start, 0.01 * most, most});
  }
  if (lengths.size() > 1) {
    knobs.push_back({[](AttentionCurve& c, double v) { c.key_ramp = v; }, 150, 0, 3000});
  }
  if (widths.size() > 1) {
    knobs.push_back({[](AttentionCurve& c, double v) { c.head_dim_ramp = v; }, 40, 0, 500});
  }
  if (points.size() >= 8) {
    knobs.push_back({[](AttentionCurve& c, double v) { c.tail = v; }, 0.3, 0, 1});
    knobs.push_back(
        {[](AttentionCurve& c, double v) { c.latency = Duration(std::llround(v * 1e6)); }, 4, 0.5,
         100});
  }
  return knobs;
}

void SetRange(const std::vector<KernelPoint>& points, AttentionCurve& curve) {
  curve.shortest = curve.longest = points.front().work.n;
  curve.narrowest = curve.widest = points.front().work.k;
  for (const KernelPoint& point : points) {
    curve.shortest = std::min(curve.shortest, point.work.n);
    curve.longest = std::max(curve.longest, point.work.n);
    curve.narrowest = std::min(curve.narrowest, point.work.k);
    curve.widest = std::max(curve.widest, point.work.k);
  }
}

AttentionCurve FitAttentionCurve(const std::vector<KernelPoint>& points, const GpuSpec& gpu) {
  GpuSpec tried = gpu;
  const std::vector<AttentionKnob> knobs =
      AttentionKnobs(points, 1 / std::max(gpu.attention_efficiency, 1e-3));
  const auto loss = [&](const std::vector<double>& x) {
    constexpr double kNoise = 0.02, kPull = 2e-4;
    double sum = 0, pull = 0;
    for (std::size_t i = 0; i < knobs.size(); ++i) {
      knobs[i].set(tried.attention, ValueOf(knobs[i], x[i]));
      pull += kPull * x[i] * x[i];
    }
    for (const KernelPoint& point : points) {
      sum += std::hypot(std::log(PriceKernel(point.work, tried).seconds / point.seconds), kNoise);
    }
    return pull + sum / static_cast<double>(points.size());
  };
  const std::function<double(const std::vector<double>&)> function = loss;
  loss(Minimize(function, std::vector<double>(knobs.size(), 0.0), {.step = 0.4}));
  return tried.attention;
}

}  // namespace

ComputeWork WorkOf(const MeasuredGemm& gemm) {
  DType output = gemm.dtype;
  if (output == DType::kFp8) output = DType::kBf16;
  if (output == DType::kTf32) output = DType::kFp32;
  return GemmWork(gemm.dtype, output, {gemm.m, gemm.n, gemm.k}, Pass::kForward);
}

ComputeWork WorkOf(const MeasuredAttention& call) {
  AttentionShape shape;
  shape.batch = call.batch;
  shape.sequence = call.seq_q;
  shape.heads = shape.kv_heads = call.heads;
  shape.head_dim = call.head_dim;
  shape.causal = call.causal;
  shape.keys = call.seq_k;
  return call.backward ? AttentionBackwardWork(shape, call.dtype)
                       : AttentionForwardWork(shape, call.dtype);
}

void FitGemms(const std::vector<MeasuredGemm>& gemms, HardwareSpec& fitted,
              std::vector<FitRecord>& records) {
  std::map<DType, std::vector<KernelPoint>> by_type;
  for (const MeasuredGemm& gemm : gemms) {
    if (IsPossible(gemm)) by_type[gemm.dtype].push_back({WorkOf(gemm), gemm.time.seconds});
  }
  for (const auto& [dtype, points] : by_type) {
    if (PeakOf(fitted.gpu, dtype).value > 0) {
      FitOneType(dtype, points, fitted.gpu, records);
      continue;
    }
    FitRecord record;
    record.what = fmt::format("gemm {}", ToString(dtype));
    record.points = static_cast<std::int64_t>(points.size());
    record.note = fmt::format("left out: {} has no unit for it", fitted.gpu.name);
    records.push_back(std::move(record));
  }
}

void FitMemoryKernels(const std::vector<MeasuredMemory>& kernels, HardwareSpec& fitted,
                      std::vector<FitRecord>& records) {
  std::vector<std::vector<double>> rows;
  std::vector<double> times;
  std::set<double> sizes;
  for (const MeasuredMemory& kernel : kernels) {
    if (kernel.time.seconds <= 0 || kernel.bytes <= 0) continue;
    rows.push_back({1, kernel.bytes});
    times.push_back(kernel.time.seconds);
    sizes.insert(kernel.bytes);
  }
  if (rows.empty()) return;
  FitRecord record;
  record.what = "memory-bound kernels";
  record.points = static_cast<std::int64_t>(rows.size());
  record.range = fmt::format("{} to {}", FormatBytes(*sizes.begin()), FormatBytes(*sizes.rbegin()));
  // One size tells no latency.
  if (sizes.size() < 2) {
    for (auto& row : rows) row[0] = 0;
  }
  const LinearFit fit = FitNonNegative(rows, times, {});
  record.residual = fit.residual;
  record.residual_p90 = fit.residual_p90;
  record.outliers =
      std::count_if(fit.weights.begin(), fit.weights.end(), [](double w) { return w < 0.05; });
  const double latency = fit.parameters[0], beta = fit.parameters[1];
  if (beta > 0) {
    const double efficiency = 1 / (beta * fitted.gpu.hbm_bandwidth.value);
    fitted.gpu.memory_efficiency = std::clamp(efficiency, 0.001, 1.0);
    fitted.gpu.memory_residual = fit.residual;
    record.value = fmt::format("{} ± {:.1f}%, {:.3f} of nominal", FormatBandwidth(1 / beta),
                               100 * fit.errors[1] / beta, efficiency);
    if (efficiency > 1) record.note = "faster than the profile's memory: caches, or another GPU";
  } else {
    record.note = "sizes too small to tell the bandwidth";
  }
  if (sizes.size() > 1) {
    fitted.gpu.kernel_latency = DurationFromSeconds(latency);
    record.value +=
        fmt::format("{}latency {}", record.value.empty() ? "" : ", ", FormatTime(latency));
  }
  records.push_back(std::move(record));
}

void FitAttention(const std::vector<MeasuredAttention>& calls, HardwareSpec& fitted,
                  std::vector<FitRecord>& records) {
  std::vector<KernelPoint> points;
  std::int64_t in_parts = 0;
  for (const MeasuredAttention& call : calls) {
    const double scores = Real(call.seq_q) * Real(call.seq_k) * Real(call.batch) *
                          Real(call.heads) * Real(call.head_dim);
    if (call.implementation == "gemm_softmax") {
      ++in_parts;
    } else if (call.time.seconds > 0 && scores < 1e16 &&
               Real(call.batch) * Real(call.heads) < 1e9 &&
               PeakOf(fitted.gpu, call.dtype).value > 0) {
      points.push_back({WorkOf(call), call.time.seconds});
    }
  }
  FitRecord record;
  record.what = "attention";
  record.points = static_cast<std::int64_t>(points.size());
  if (in_parts > 0) {
    record.note = fmt::format("{} calls as products and a softmax left out", in_parts);
  }
  if (!points.empty()) {
    AttentionCurve curve = FitAttentionCurve(points, fitted.gpu);
    SetRange(points, curve);
    fitted.gpu.attention = curve;
    const Errors errors = ErrorsOf(points, Predict(points, fitted.gpu));
    fitted.gpu.attention.residual = record.residual = errors.median;
    record.residual_p90 = errors.p90;
    const double e = fitted.gpu.attention_efficiency;
    record.value = fmt::format("efficiency {:.3f} forward, {:.3f} backward, ramp {:.0f} keys",
                               e * curve.forward, e * curve.backward, curve.key_ramp);
    record.range = fmt::format("{} to {} keys, heads of {} to {}", curve.shortest, curve.longest,
                               curve.narrowest, curve.widest);
  }
  if (record.points > 0 || in_parts > 0) records.push_back(std::move(record));
}

void FitLaunches(const std::vector<MeasuredLaunch>& launches, bool has_memory_kernels,
                 HardwareSpec& fitted, HostSpec& host, std::vector<FitRecord>& records) {
  std::map<std::string, std::vector<double>> times;
  for (const MeasuredLaunch& launch : launches) {
    if (launch.time.seconds > 0) times[launch.op].push_back(launch.time.seconds);
  }
  for (const auto& [op, values] : times) {
    const RobustMedian median = MedianOf(values);
    FitRecord record;
    record.what = op;
    record.points = static_cast<std::int64_t>(values.size());
    record.value = FormatTime(median.value);
    if (op == "event_handover") {
      host.event_handover = DurationFromSeconds(median.value);
    } else if (op == "empty_kernel" && !has_memory_kernels) {
      fitted.gpu.kernel_latency = DurationFromSeconds(median.value);
    } else {
      record.note = "noted only";
    }
    records.push_back(std::move(record));
  }
}

}  // namespace stepsim
