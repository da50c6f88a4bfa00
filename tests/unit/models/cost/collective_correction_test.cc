// The correction's equation by hand, and calibrations that pass through their points.
#include "models/cost/collective_correction.h"

#include <gtest/gtest.h>

#include <vector>

namespace stepsim {
namespace {

TEST(Correct, IsTheEquation) {
  CollectiveCorrection row;
  row.latency_factor = 2;
  row.added_latency = std::chrono::microseconds(3);
  row.time_factor = 1.5;
  row.ramp = std::chrono::microseconds(40);
  row.ramp_exponent = 0.5;
  const SplitTime time = Correct(row, {.latency = 10e-6, .transfer = 160e-6});
  EXPECT_DOUBLE_EQ(time.latency, 23e-6);      // 2 x 10 + 3
  EXPECT_NEAR(time.transfer, 360e-6, 1e-12);  // 1.5 x 160 x (1 + sqrt(40/160))
  EXPECT_DOUBLE_EQ(Correct(row, {10e-6, 0}).sum(), 23e-6);
}

TEST(FindCorrection, TheFirstRowThatMatchesHolds) {
  CollectiveCorrections table;
  table.rows.resize(3);
  table.rows[0].transport = "nvlink";
  table.rows[0].generation = "hopper";
  table.rows[1].transport = "network";
  table.rows[2].transport = "node";
  const auto transport = [&](const char* name, const char* generation) {
    return FindCorrection(table, {name, generation, "ring", "ll", "all_reduce"}).transport;
  };
  EXPECT_EQ(transport("nvlink", "hopper"), "nvlink");
  EXPECT_EQ(transport("nvlink", "volta"), "node");
  EXPECT_EQ(transport("pcie", "hopper"), "node");
  EXPECT_EQ(transport("efa", "hopper"), "network");
}

TEST(CorrectionTransport, IsTheSlowestKindOfLink) {
  HardwareSpec hardware;
  hardware.gpus_per_node = 8;
  hardware.intra_node.type = "nvlink";
  hardware.network.link.type = "roce";
  EXPECT_EQ(CorrectionTransport(hardware, 1), "nvlink");
  EXPECT_EQ(CorrectionTransport(hardware, 2), "infiniband");
  hardware.gpus_per_node = 72;
  EXPECT_EQ(CorrectionTransport(hardware, 2), "racks");
}

TEST(KeepRowsFor, LeavesWhatAGroupOnThisMachineCanMatch) {
  HardwareSpec hardware;
  hardware.gpus_per_node = 8;
  hardware.gpu.compute_capability = 9.0;
  hardware.intra_node.type = "nvlink";
  hardware.network.link.type = "efa";
  CollectiveCorrections table;
  const auto add = [&](const char* transport, const char* generation) {
    table.rows.emplace_back().transport = transport;
    table.rows.back().generation = generation;
  };
  add("nvlink", "hopper");
  add("nvlink", "volta");
  add("efa", "*");
  add("infiniband", "*");
  add("network", "*");
  add("*", "ampere");
  CollectiveCorrections kept = table;
  KeepRowsFor(hardware, kept);
  ASSERT_EQ(kept.rows.size(), 3u);
  EXPECT_EQ(kept.rows[0].transport, "nvlink");
  EXPECT_EQ(kept.rows[1].transport, "efa");
  EXPECT_EQ(kept.rows[2].transport, "network");
}

CollectiveCost Predicted(double latency, double transfer) {
  CollectiveCost cost;
  cost.seconds = latency + transfer;
  cost.latency_seconds = latency;
  return cost;
}

CollectiveCalibration::Knot Knot(double bytes, double measured) {
  return {bytes, {.latency = 20e-6, .transfer = bytes / 100e9}, measured};
}

double Calibrated(const CollectiveCalibration& calibration, double bytes) {
  CollectiveCost cost = Predicted(20e-6, bytes / 100e9);
  calibration.ApplyTo(bytes, &cost);
  return cost.seconds;
}

TEST(CollectiveCalibration, PassesThroughItsPoints) {
  const std::vector<CollectiveCalibration::Knot> knots = {Knot(1e3, 35e-6), Knot(1e6, 70e-6),
                                                          Knot(1e8, 1.3e-3), Knot(1e10, 0.12)};
  for (std::size_t n = 1; n <= knots.size(); ++n) {
    const std::vector<CollectiveCalibration::Knot> some(knots.begin(),
                                                        knots.begin() + std::ptrdiff_t(n));
    const CollectiveCalibration calibration(some);
    for (const auto& knot : some) {
      EXPECT_NEAR(Calibrated(calibration, knot.bytes), knot.measured, 1e-9 * knot.measured);
    }
  }
}

// A machine with twice the latency and 0.8 of the bandwidth is found from its ends.
TEST(CollectiveCalibration, TwoPointsTellLatencyFromBandwidth) {
  const auto truth = [](double bytes) { return 40e-6 + bytes / 80e9; };
  const CollectiveCalibration calibration({Knot(1e3, truth(1e3)), Knot(1e10, truth(1e10))});
  for (const double bytes : {1e4, 1e6, 1e7, 1e9}) {
    EXPECT_NEAR(Calibrated(calibration, bytes), truth(bytes), 1e-6 * truth(bytes));
  }
}

TEST(CollectiveCorrection, OutsideTheSizesOfTheFitIsExtrapolated) {
  CollectiveCorrection row;
  EXPECT_FALSE(IsOutside(row, Bytes{1}));  // no sizes are known
  row.smallest = Bytes{1024};
  row.largest = Bytes{1 << 20};
  // curves go up in steps of 2: 512 B and 2 MiB are the next sizes, and were not measured
  EXPECT_TRUE(IsOutside(row, Bytes{512}));
  EXPECT_FALSE(IsOutside(row, Bytes{513}));
  EXPECT_FALSE(IsOutside(row, Bytes{1024}));
  EXPECT_FALSE(IsOutside(row, Bytes{1 << 20}));
  EXPECT_FALSE(IsOutside(row, Bytes{(2 << 20) - 1}));
  EXPECT_TRUE(IsOutside(row, Bytes{2 << 20}));
}

// Points of one's own cluster count, wherever the shipped corrections were fitted.
TEST(CollectiveCalibration, BetweenItsPointsNothingIsExtrapolated) {
  const CollectiveCalibration calibration({Knot(1e6, 30e-6), Knot(1e8, 1e-3)});
  CollectiveCost cost = Predicted(20e-6, 1e-3);
  cost.is_extrapolated = true;
  calibration.ApplyTo(1e7, &cost);
  EXPECT_FALSE(cost.is_extrapolated);
}

TEST(CollectiveCalibration, OutsideItsSizesIsExtrapolated) {
  const CollectiveCalibration calibration({Knot(1e6, 30e-6), Knot(1e8, 1e-3)});
  CollectiveCost cost = Predicted(20e-6, 1e-3);
  calibration.ApplyTo(1e7, &cost);
  EXPECT_FALSE(cost.is_extrapolated);
  calibration.ApplyTo(1e9, &cost);
  EXPECT_TRUE(cost.is_extrapolated);
}

// Points that no latency and bandwidth explain (faster when larger) still hold where they were
// taken.
TEST(CollectiveCalibration, HoldsAtPointsThatContradictTheModel) {
  const CollectiveCalibration calibration({Knot(1e6, 1e-2), Knot(1e7, 1e-3)});
  EXPECT_NEAR(Calibrated(calibration, 1e6), 1e-2, 1e-11);
  EXPECT_NEAR(Calibrated(calibration, 1e7), 1e-3, 1e-12);
  EXPECT_GT(Calibrated(calibration, 3e6), 0);
}

TEST(CollectiveCalibration, WithoutPointsChangesNothing) {
  EXPECT_DOUBLE_EQ(Calibrated(CollectiveCalibration({}), 1e6), 30e-6);
}

}  // namespace
}  // namespace stepsim
