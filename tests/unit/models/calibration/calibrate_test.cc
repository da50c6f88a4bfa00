// Fits find the truth behind synthetic measurements with 2 % noise, and those behind the tables
// that are committed.
#include "models/calibration/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "models/calibration/collective_validation.h"
#include "models/calibration/curve_fit.h"
#include "models/calibration/interference_fit.h"
#include "models/calibration/kernel_calibration.h"
#include "models/calibration/kernel_table.h"
#include "models/calibration/robust_fit.h"
#include "models/cost/collective_cost.h"
#include "models/cost/kernel_cost.h"
#include "models/cost/measured_curve.h"
#include "models/spec/config_source.h"
#include "models/spec/load_job.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

// Normal noise, the same on every machine: a 64-bit multiplicative generator and Box-Muller.
class Noise {
 public:
  explicit Noise(double relative) : relative_(relative) {}
  double operator()(double value) {
    const double u = Uniform(), v = Uniform();
    const double pi = std::acos(-1.0);
    return value * (1 + relative_ * std::sqrt(-2 * std::log(u)) * std::cos(2 * pi * v));
  }

 private:
  double Uniform() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (static_cast<double>(state_ >> 11) + 1) / 9007199254740994.0;
  }
  double relative_;
  std::uint64_t state_ = 2026;
};

HardwareSpec Base() {
  HardwareSpec hardware;
  hardware.name = "box";
  hardware.gpus_per_node = 8;
  GpuSpec& gpu = hardware.gpu;
  gpu.name = "chip";
  gpu.compute_capability = 9.0;
  gpu.sms = 132;
  gpu.peak.bf16 = {989e12};
  gpu.hbm_bandwidth = {3.35e12};
  gpu.memory = Bytes{80'000'000'000};
  gpu.gemm_efficiency = 0.8;
  gpu.memory_efficiency = 0.9;
  gpu.attention_efficiency = 0.5;
  gpu.kernel_latency = Duration{3'000'000};
  hardware.intra_node = {.type = "nvlink", .bandwidth = {450e9}, .efficiency = 0.8};
  hardware.network.name = "net";
  hardware.network.link = {.type = "infiniband", .bandwidth = {50e9}, .efficiency = 0.9};
  hardware.network.nics_per_node = 8;
  return hardware;
}

// ---- The linear fit ----

TEST(RobustFit, FindsTheTruthBesideOutliers) {
  constexpr double kAlpha = 12e-6, kBeta = 1 / 200e9;
  Noise noise(0.02);
  std::vector<std::vector<double>> rows;
  std::vector<double> times;
  for (double bytes = 1024; bytes <= 1e9; bytes *= 2) {
    rows.push_back({1, bytes});
    times.push_back(noise(kAlpha + kBeta * bytes));
  }
  times[5] *= 3;
  times[15] *= 0.3;
  const LinearFit fit = FitNonNegative(rows, times, {});
  // 20 points of 2 %, about half of which tell each parameter: 2 % / sqrt(10), three of them.
  EXPECT_NEAR(fit.parameters[0], kAlpha, 0.02 * kAlpha);
  EXPECT_NEAR(fit.parameters[1], kBeta, 0.02 * kBeta);
  EXPECT_LT(fit.weights[5], 0.01);
  EXPECT_LT(fit.weights[15], 0.01);
  EXPECT_GT(fit.weights[6], 0.5);
  EXPECT_LT(std::abs(fit.parameters[0] - kAlpha), 1.5 * fit.errors[0]);
  EXPECT_LT(std::abs(fit.parameters[1] - kBeta), 1.5 * fit.errors[1]);
  EXPECT_LT(fit.errors[1], 0.03 * kBeta);
}

// Least squares would give the line through these a negative latency.
TEST(RobustFit, NeverGoesBelowZero) {
  const LinearFit fit = FitNonNegative({{1, 1}, {1, 2}, {1, 3}, {1, 4}}, {0.8, 1.9, 3.0, 4.1}, {});
  EXPECT_EQ(fit.parameters[0], 0);
  EXPECT_EQ(fit.errors[0], 0);
  EXPECT_NEAR(fit.parameters[1], 1, 0.05);
}

// ---- Collectives ----

std::vector<MeasuredCall> Synthetic(const CollectiveCurve& truth, double smallest, double largest) {
  Noise noise(0.02);
  std::vector<MeasuredCall> calls;
  for (double bytes = smallest; bytes <= largest; bytes *= 2) {
    for (const bool in_place : {false, true}) {
      MeasuredCall call;
      call.bytes = static_cast<std::int64_t>(bytes);
      call.ranks = 8;
      call.in_place = in_place;
      call.time.seconds = noise(SmoothSeconds(truth, bytes));
      calls.push_back(call);
    }
  }
  return calls;
}

CollectiveCurve Truth() {
  CollectiveCurve truth;
  truth.latency = Duration{15'000'000};
  truth.bandwidth = {270e9};
  truth.ramp = Duration{20'000'000};
  return truth;
}

TEST(CurveFit, RecoversLatencyBandwidthAndRamp) {
  const CollectiveCurve truth = Truth();
  const CurveFits fits = FitCurves(Synthetic(truth, 1024, 4e9));
  ASSERT_EQ(fits.curves.size(), 1u);
  const CollectiveCurve& curve = fits.curves[0];
  EXPECT_TRUE(curve.knots.empty());
  EXPECT_NEAR(ToSeconds(curve.latency), 15e-6, 0.03 * 15e-6);
  EXPECT_NEAR(curve.bandwidth.value, 270e9, 0.03 * 270e9);
  // The ramp shows in the middle of the sizes alone, as a root: known to about a third.
  EXPECT_NEAR(ToSeconds(curve.ramp), 20e-6, 0.35 * 20e-6);
  EXPECT_LT(curve.residual, 0.02);
  EXPECT_EQ(curve.smallest.value, 1024);
  EXPECT_LT(std::abs(curve.bandwidth.value / 270e9 - 1), 1.5 * curve.bandwidth_error);
  // Between sizes and at them: no worse than the noise.
  for (double bytes = 1024; bytes < 4e9; bytes *= 1.7) {
    EXPECT_NEAR(CurveSeconds(curve, bytes) / SmoothSeconds(truth, bytes), 1, 0.03) << bytes;
  }
}

// A protocol that ends at 64 KiB: no smooth curve has such a step.
TEST(CurveFit, TakesKnotsWhereTheCurveHasSteps) {
  std::vector<MeasuredCall> calls = Synthetic(Truth(), 1024, 4e9);
  for (MeasuredCall& call : calls) {
    if (call.bytes > 65'536 && call.bytes < 5'000'000) call.time.seconds *= 2;
  }
  const CurveFits fits = FitCurves(calls);
  ASSERT_EQ(fits.curves.size(), 1u);
  ASSERT_FALSE(fits.curves[0].knots.empty());
  for (const MeasuredCall& call : calls) {
    const double seconds = CurveSeconds(fits.curves[0], static_cast<double>(call.bytes));
    EXPECT_NEAR(seconds / call.time.seconds, 1, 0.06) << call.bytes;
  }
}

TEST(CurveFit, SaysWhatSizesCannotTell) {
  CollectiveCurve flat;
  flat.latency = Duration{20'000'000};
  const CurveFits small = FitCurves(Synthetic(flat, 8, 4096));
  ASSERT_EQ(small.curves.size(), 1u);
  EXPECT_LT(small.curves[0].residual, 0.03);
  // Two sizes are no curve: they stay what they are.
  const CurveFits few = FitCurves(Synthetic(Truth(), 1024, 2048));
  EXPECT_TRUE(few.curves.empty());
  ASSERT_EQ(few.points.size(), 2u);
  EXPECT_EQ(few.points[0].ranks, 8);
}

// Measurements enter the price of a collective, and what the job changes acts on them as the model
// says.
TEST(MeasuredCurves, HoldForTheirGroupAndCollective) {
  HardwareSpec hardware = Base();
  CollectiveCurve curve = Truth();
  curve.ranks = 8;
  curve.residual = 0.017;
  curve.smallest = Bytes{1024};
  curve.largest = Bytes{1 << 30};
  hardware.collective_curves = {curve};
  CollectiveRequest request;
  request.bytes = Bytes{1 << 24};
  request.placement.ranks = request.placement.ranks_per_node = 8;
  request.placement.job_gpus_per_node = 8;
  const CollectiveModelSpec spec;
  const CollectiveCost cost = CollectivePricer(hardware, spec)(request);
  EXPECT_NEAR(cost.seconds, SmoothSeconds(curve, 1 << 24), 1e-9 * cost.seconds);
  EXPECT_EQ(cost.residual, 0.017);
  EXPECT_FALSE(cost.is_extrapolated);
  EXPECT_GT(cost.sms, 0);
  CollectiveRequest larger = request;
  larger.bytes = Bytes{std::int64_t{1} << 32};
  EXPECT_TRUE(CollectivePricer(hardware, spec)(larger).is_extrapolated);

  // Another collective is the model's.
  CollectiveRequest gather = request;
  gather.op = CollectiveOp::kAllGather;
  EXPECT_EQ(CollectivePricer(hardware, spec)(gather).seconds,
            CollectivePricer(Base(), spec)(gather).seconds);

  // Half of the thread blocks cost what the model says they cost.
  CollectiveModelSpec fewer;
  fewer.max_ctas = 4;
  const double by_model = CollectivePricer(Base(), fewer)(request).seconds /
                          CollectivePricer(Base(), spec)(request).seconds;
  EXPECT_GT(by_model, 1.1);
  EXPECT_NEAR(CollectivePricer(hardware, fewer)(request).seconds / cost.seconds, by_model, 1e-9);
}

TEST(MeasuredCurves, TransportsOfTheHostHoldNoSms) {
  HardwareSpec hardware = Base();
  CollectiveCurve curve = Truth();
  curve.ranks = curve.nodes = 2;
  curve.backend = "gloo";
  hardware.collective_curves = {curve};
  CollectiveRequest request;
  request.bytes = Bytes{1 << 20};
  request.placement.ranks = request.placement.nodes = 2;
  request.placement.last_node = 1;
  for (const CollectiveModel model : {CollectiveModel::kNccl, CollectiveModel::kAlphaBeta}) {
    CollectiveModelSpec spec;
    spec.model = model;
    const CollectiveCost cost = CollectivePricer(hardware, spec)(request);
    EXPECT_NEAR(cost.seconds, SmoothSeconds(curve, 1 << 20), 1e-12);
    EXPECT_EQ(cost.algorithm, "gloo");
    EXPECT_EQ(cost.sms, 0);
    EXPECT_EQ(cost.hbm_bytes, 0);
    // The link is busy while bytes move.
    const double transfer = cost.seconds - ToSeconds(curve.latency);
    EXPECT_NEAR(cost.network_share, transfer / cost.seconds, 1e-12);
  }
}

// ---- Kernels ----

MeasuredGemm Gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  MeasuredGemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  return gemm;
}

TEST(KernelCalibration, ScalesTheCurveToAFewProducts) {
  HardwareSpec truth = Base(), fitted = Base();
  GemmCurve curve;
  curve.tiles = {{128, 256, 1}};
  curve.tail = 0.5;
  truth.gpu.gemm = fitted.gpu.gemm = {curve};
  truth.gpu.gemm[0].efficiency = 0.9;
  Noise noise(0.02);
  std::vector<MeasuredGemm> gemms;
  for (const std::int64_t n : {2048, 4096, 8192, 12288}) {
    for (const std::int64_t k : {2048, 4096, 8192}) {
      gemms.push_back(Gemm(8192, n, k));
      gemms.back().time.seconds = noise(PriceKernel(WorkOf(gemms.back()), truth.gpu).seconds);
    }
  }
  std::vector<FitRecord> records;
  FitGemms(gemms, fitted, records);
  // 12 products of 2 %: 1.25 x 2 % / sqrt(12), three of them.
  EXPECT_NEAR(fitted.gpu.gemm[0].efficiency, 0.9, 0.022 * 0.9);
  EXPECT_LT(fitted.gpu.gemm[0].residual, 0.03);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].points, 12);
}

TEST(KernelCalibration, RecoversMemoryBandwidthAndLatency) {
  HardwareSpec fitted = Base();
  Noise noise(0.02);
  std::vector<MeasuredMemory> kernels;
  for (double bytes = 1e5; bytes < 4e9; bytes *= 2) {
    MeasuredMemory kernel;
    kernel.op = "copy";
    kernel.bytes = bytes;
    kernel.time.seconds = noise(5e-6 + bytes / (0.82 * 3.35e12));
    kernels.push_back(kernel);
  }
  std::vector<FitRecord> records;
  FitMemoryKernels(kernels, fitted, records);
  EXPECT_NEAR(fitted.gpu.memory_efficiency, 0.82, 0.02 * 0.82);
  EXPECT_NEAR(ToSeconds(fitted.gpu.kernel_latency), 5e-6, 0.05 * 5e-6);
  EXPECT_GT(fitted.gpu.memory_residual, 0.005);
  EXPECT_LT(fitted.gpu.memory_residual, 0.02);
}

TEST(KernelCalibration, RecoversAttention) {
  HardwareSpec truth = Base(), fitted = Base();
  truth.gpu.attention.forward = 1.3;
  truth.gpu.attention.backward = 0.9;
  truth.gpu.attention.key_ramp = 220;
  Noise noise(0.02);
  std::vector<MeasuredAttention> calls;
  for (const std::int64_t tokens : {1024, 2048, 4096, 8192, 16384}) {
    for (const bool causal : {false, true}) {
      for (const bool backward : {false, true}) {
        MeasuredAttention call;
        call.batch = 16384 / tokens;
        call.heads = 32;
        call.seq_q = call.seq_k = tokens;
        call.head_dim = 128;
        call.causal = causal;
        call.backward = backward;
        call.time.seconds = noise(PriceKernel(WorkOf(call), truth.gpu).seconds);
        calls.push_back(call);
      }
    }
  }
  std::vector<FitRecord> records;
  FitAttention(calls, fitted, records);
  EXPECT_NEAR(fitted.gpu.attention.forward, 1.3, 0.04 * 1.3);
  EXPECT_NEAR(fitted.gpu.attention.backward, 0.9, 0.04 * 0.9);
  EXPECT_NEAR(fitted.gpu.attention.key_ramp, 220, 80);
  EXPECT_LT(fitted.gpu.attention.residual, 0.025);
  EXPECT_EQ(fitted.gpu.attention.longest, 16384);
}

TEST(InterferenceFit, RecoversWhatSlowsDown) {
  HardwareSpec truth = Base(), fitted = Base();
  truth.gpu.contention.gemm = 0.25;
  truth.gpu.contention.sm_loss = 1.4;
  Noise noise(0.01);  // of each of two times, so of the slow-down 1.4 %
  std::vector<MeasuredInterference> pairs;
  for (const std::int64_t n : {4096, 8192, 16384}) {
    for (const double sms : {8.0, 16.0, 24.0, 32.0, 48.0}) {
      MeasuredInterference pair;
      pair.compute = Gemm(16384, n, 8192);
      pair.is_collective = false;
      pair.sms = sms;
      pair.compute_alone = noise(1);
      pair.compute_beside = noise(PredictSlowdown(pair, truth).compute);
      pairs.push_back(pair);
    }
    for (const std::int64_t bytes : {1 << 24, 1 << 26, 1 << 28, 1 << 30}) {
      MeasuredInterference pair;
      pair.compute = Gemm(16384, n, 8192);
      pair.collective.bytes = bytes;
      pair.collective.ranks = 8;
      pair.compute_alone = noise(1);
      pair.compute_beside = noise(PredictSlowdown(pair, truth).compute);
      pairs.push_back(pair);
    }
  }
  std::vector<FitRecord> records;
  FitInterference(pairs, fitted, records);
  EXPECT_NEAR(fitted.gpu.contention.sm_loss, 1.4, 0.08);
  EXPECT_NEAR(fitted.gpu.contention.gemm, 0.25, 0.03);
}

TEST(InterferenceFit, TransportsOfTheHostSlowAllCompute) {
  HardwareSpec fitted = Base();
  MeasuredInterference pair;
  pair.compute = Gemm(512, 512, 512);
  pair.collective.bytes = 1 << 20;
  pair.collective.ranks = pair.collective.nodes = 2;
  pair.collective.backend = "gloo";
  pair.compute_alone = 2e-3;
  pair.compute_beside = 2.4e-3;
  pair.beside_alone = 10e-3;
  pair.beside_beside = 10.5e-3;
  std::vector<FitRecord> records;
  FitInterference({pair}, fitted, records);
  // Both slow-downs are met, with what the profile's own coefficients say of this rate inside.
  EXPECT_NEAR(PredictSlowdown(pair, fitted).compute, 1.2, 1e-6);
  EXPECT_GT(fitted.gpu.contention.transfer_on_compute, 0.05);
  EXPECT_EQ(fitted.gpu.contention.gemm, Base().gpu.contention.gemm);
  EXPECT_NEAR(PredictSlowdown(pair, fitted).beside, 1.05, 1e-6);
}

// ---- The file ----

TEST(Calibration, LiesOverTheProfileAndUnderSettings) {
  const DirectoryConfigSource configs(STEPSIM_SOURCE_DIR "/configs");
  const ResolvedJob plain = LoadJob("gpt2_ddp_8xa100", {}, configs);
  Measurements measured;
  measured.about.device = "an A100 \xff";
  measured.about.date = "2026-11-30";
  measured.collectives = Synthetic(Truth(), 1024, 4e9);
  MeasuredMemory kernel;
  for (const double bytes : {1e6, 1e7, 1e8, 1e9}) {
    kernel.bytes = bytes;
    kernel.time.seconds = 5e-6 + bytes / 1e12;
    measured.memory.push_back(kernel);
  }
  const FittedCalibration calibration = Calibrate(measured, plain.job.hardware, "mine");
  const std::string yaml = CalibrationYaml(calibration, plain.job.hardware);
  EXPECT_EQ(LoadCalibrationText(yaml, "mine.yaml").fitted_over, plain.job.hardware.name);

  // As a mapping in the job's own file, with the profile beside it.
  const std::string tree = plain.resolved_json;
  const MemoryConfigSource source(std::map<std::string, std::string>{{"mine.yaml", yaml}});
  const ResolvedJob calibrated =
      LoadJobText(tree, "job.json", {"calibration=mine.yaml", "hardware.gpu.sms=100"}, source);
  const HardwareSpec& hardware = calibrated.job.hardware;
  EXPECT_EQ(calibrated.job.calibration.name, "mine");
  EXPECT_EQ(calibrated.job.calibration.device, "an A100 ?");
  EXPECT_NEAR(hardware.gpu.memory_efficiency, calibration.hardware.gpu.memory_efficiency, 1e-5);
  EXPECT_EQ(hardware.gpu.sms, 100);
  EXPECT_EQ(hardware.gpu.gemm.size(), plain.job.hardware.gpu.gemm.size());
  ASSERT_EQ(hardware.collective_curves.size(), 1u);
  EXPECT_NEAR(hardware.collective_curves[0].bandwidth.value,
              calibration.hardware.collective_curves[0].bandwidth.value, 1e6);
  // --set is stronger.
  EXPECT_EQ(LoadJobText(tree, "job.json",
                        {"calibration=mine.yaml", "hardware.gpu.memory_efficiency=0.5"}, source)
                .job.hardware.gpu.memory_efficiency,
            0.5);
  // The resolved job needs no file, and is the same again.
  const ResolvedJob again = LoadJobText(calibrated.resolved_json, "again.json", {}, source);
  EXPECT_EQ(again.job.calibration.name, "mine");
  EXPECT_EQ(again.job.hardware.collective_curves.size(), 1u);
  EXPECT_EQ(again.resolved_json, calibrated.resolved_json);
}

// ---- What is committed ----

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// configs/collectives/nccl.yaml is fitted to the published curves of tests/data.
TEST(Refit, GivesTheCommittedCorrectionsAgain) {
  const DirectoryConfigSource configs(STEPSIM_SOURCE_DIR "/configs");
  const std::string path = STEPSIM_SOURCE_DIR "/tests/data/nccl_curves.csv";
  const CollectiveValidation validation(ReadMeasuredCollectives(ReadFile(path), path), configs);
  const CollectiveCorrections fitted = validation.Fit("nccl");
  const CollectiveCorrections committed = LoadCorrections("nccl", configs);
  ASSERT_EQ(fitted.rows.size(), committed.rows.size());
  for (std::size_t i = 0; i < fitted.rows.size(); ++i) {
    const CollectiveCorrection& a = fitted.rows[i];
    const CollectiveCorrection& b = committed.rows[i];
    EXPECT_EQ(a.transport + a.generation + a.algorithm + a.protocol,
              b.transport + b.generation + b.algorithm + b.protocol);
    EXPECT_NEAR(a.latency_factor, b.latency_factor, 1e-3);  // as many digits as are written
    EXPECT_NEAR(a.time_factor, b.time_factor, 1e-3);
    EXPECT_NEAR(ToSeconds(a.ramp), ToSeconds(b.ramp), 1e-9);
  }
}

}  // namespace
}  // namespace stepsim
