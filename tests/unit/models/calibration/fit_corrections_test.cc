// A fit must find what its points were made of; expected values are the parameters that generated
// them.
#include "models/calibration/fit_corrections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/calibration/error_statistics.h"
#include "models/cost/collective_correction.h"

namespace stepsim {
namespace {

constexpr double kLatencyFactor = 1.7;
constexpr double kTimeFactor = 1.1;
constexpr double kRamp = 20e-6;

// 1 KiB to 4 GiB at 100 GB/s.
std::vector<FitPoint> Curve(const std::string& group, double disturbance = 1) {
  std::vector<FitPoint> points;
  for (double bytes = 1024; bytes < 5e9; bytes *= 2) {
    FitPoint point;
    point.group = group;
    point.transport = "nvlink";
    point.generation = "hopper";
    point.algorithm = "ring";
    point.protocol = "simple";
    point.size = Bytes{static_cast<std::int64_t>(bytes)};
    point.latency = 30e-6;
    point.transfer = bytes / 100e9;
    point.measured =
        disturbance * (kLatencyFactor * point.latency +
                       kTimeFactor * point.transfer * (1 + std::sqrt(kRamp / point.transfer)));
    points.push_back(point);
  }
  return points;
}

void Append(std::vector<FitPoint>& points, const std::vector<FitPoint>& more) {
  points.insert(points.end(), more.begin(), more.end());
}

const CollectiveCorrection& RowFor(const CollectiveCorrections& table, const char* transport,
                                   const char* generation) {
  return FindCorrection(table, {transport, generation, "ring", "simple", "all_reduce"});
}

TEST(FitCorrections, RecoversItsParameters) {
  std::vector<FitPoint> points;
  for (const char* group : {"a", "b", "c", "d"}) Append(points, Curve(group));
  const CollectiveCorrections table = FitCorrections(points, "t");
  const CollectiveCorrection& row = RowFor(table, "nvlink", "hopper");
  EXPECT_NEAR(row.latency_factor, kLatencyFactor, 0.03 * kLatencyFactor);
  EXPECT_NEAR(row.time_factor, kTimeFactor, 0.01 * kTimeFactor);
  EXPECT_NEAR(ToSeconds(row.ramp), kRamp, 0.1 * kRamp);
  EXPECT_LT(row.residual, 0.01);
  EXPECT_EQ(row.smallest, Bytes{1024});  // as Curve's sizes
  EXPECT_EQ(row.largest, Bytes{std::int64_t{1} << 32});
}

TEST(FitCorrections, OneWrongSystemOfFiveDoesNotDragTheRow) {
  std::vector<FitPoint> points;
  for (const char* group : {"a", "b", "c", "d"}) Append(points, Curve(group));
  Append(points, Curve("broken", 5));
  const CollectiveCorrections table = FitCorrections(points, "t");
  const CollectiveCorrection& row = RowFor(table, "nvlink", "hopper");
  for (const FitPoint& point : Curve("a")) {
    const SplitTime time = Correct(row, {point.latency, point.transfer});
    EXPECT_NEAR(time.sum() / point.measured, 1, 0.1);
  }
}

TEST(FitCorrections, ASystemWeighsTheSameHoweverOftenItWasMeasured) {
  std::vector<FitPoint> once, often;
  for (const char* group : {"a", "b"}) {
    Append(once, Curve(group));
    Append(often, Curve(group));
  }
  Append(once, Curve("c", 1.3));
  for (int i = 0; i < 20; ++i) Append(often, Curve("c", 1.3));
  const CollectiveCorrections few = FitCorrections(once, "t"), many = FitCorrections(often, "t");
  EXPECT_NEAR(RowFor(few, "nvlink", "hopper").time_factor,
              RowFor(many, "nvlink", "hopper").time_factor, 1e-6);
}

// What no system chose is corrected too: by the algorithm's other protocols, then by all of the
// kind. Otherwise a step to such a choice would look faster than anything measured.
TEST(FitCorrections, AnUnseenChoiceHasARow) {
  std::vector<FitPoint> points;
  for (const char* group : {"a", "b", "c", "d"}) Append(points, Curve(group));
  const CollectiveCorrections table = FitCorrections(points, "t");
  const auto factor = [&](const char* algorithm, const char* protocol) {
    return FindCorrection(table, {"nvlink", "hopper", algorithm, protocol, "all_reduce"})
        .latency_factor;
  };
  EXPECT_NEAR(factor("ring", "ll"), kLatencyFactor, 0.05 * kLatencyFactor);
  EXPECT_NEAR(factor("p2p", "ll"), kLatencyFactor, 0.05 * kLatencyFactor);
}

TEST(FitCorrections, AnUnseenTransportGetsTheRowOfItsKind) {
  std::vector<FitPoint> points;
  for (const char* group : {"a", "b", "c"}) Append(points, Curve(group));
  const CollectiveCorrections table = FitCorrections(points, "t");
  EXPECT_EQ(RowFor(table, "nvlink", "hopper").generation, "hopper");
  EXPECT_EQ(RowFor(table, "nvlink", "volta").transport, "nvlink");
  EXPECT_EQ(RowFor(table, "pcie", "volta").transport, "node");
  EXPECT_EQ(RowFor(table, "efa", "volta").transport, "*");  // the identity: nothing is known
  EXPECT_EQ(RowFor(table, "efa", "volta").latency_factor, 1);
}

TEST(FitCorrections, PointsWithoutTimeAreLeftAside) {
  std::vector<FitPoint> points = Curve("a");
  points[0].transfer = 0;
  points[1].measured = 0;
  EXPECT_FALSE(FitCorrections(points, "t").rows.empty());
  EXPECT_TRUE(FitCorrections({}, "t").rows.empty());
}

TEST(ErrorStatistics, MedianTailAndBias) {
  EXPECT_DOUBLE_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(Quantile({1, 2}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(Quantile({}, 0.9), 0);
  const ErrorSummary summary = Summarize({-0.4, 0.1, 0.2});
  EXPECT_EQ(summary.count, 3u);
  EXPECT_DOUBLE_EQ(summary.median, 0.2);
  EXPECT_DOUBLE_EQ(summary.bias, 0.1);
  EXPECT_NEAR(summary.p90, 0.36, 1e-12);  // 0.8 of the way from 0.2 to 0.4
}

// A third of the measured time is farther off than twice of it: log 3 > log 2.
TEST(ErrorStatistics, FarthestOffByRatio) {
  const std::vector<double> errors = {0.1, 1.0, -2.0 / 3, 1.0};
  EXPECT_EQ(FarthestOff(
                {0, 1, 2, 3}, [&](std::size_t i) { return errors[i]; }, 3),
            (std::vector<std::size_t>{2, 1, 3}));
  EXPECT_EQ(FarthestOff(
                {0}, [&](std::size_t i) { return errors[i]; }, 3)
                .size(),
            1u);
}

}  // namespace
}  // namespace stepsim
