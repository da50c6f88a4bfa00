// Corrections, calibration, two levels, point-to-point: what stands around NCCL's table.
#include <gtest/gtest.h>

#include <cmath>

#include "models/cost/collective_cost.h"
#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::int64_t kGiB = 1024 * kMiB;

CollectiveCost Cost(const HardwareSpec& hardware, const Placement& placement, CollectiveOp op,
                    std::int64_t bytes, const CollectiveModelSpec& spec = Nccl()) {
  return CollectivePricer(hardware, spec)({op, Bytes{bytes}, DType::kBf16, placement});
}

// Where the links deliver what NCCL assumes (20 of 25 GB/s per link) and the release is the newest,
// the time is NCCL's own prediction: 8.4 + 14 x 3.4 us + 1 GiB / 137.14 GB/s.
TEST(NcclPricer, IsNcclsPredictionOnIdealLinks) {
  HardwareSpec hardware = DgxA100();
  hardware.intra_node.efficiency = 0.8;
  const CollectiveCost cost = Cost(hardware, Nodes(1), CollectiveOp::kAllReduce, kGiB);
  EXPECT_NEAR(cost.seconds, cost.nccl_seconds, 1e-12);
  EXPECT_NEAR(cost.seconds, 56e-6 + 1073741824 / 137.142857e9, 1e-9);
}

TEST(NcclPricer, OneRankTakesNoTime) {
  const CollectiveCost cost = Cost(DgxA100(), Nodes(1, 1), CollectiveOp::kAllReduce, kGiB);
  EXPECT_EQ(cost.seconds, 0);
  EXPECT_EQ(cost.sms, 0);
}

TEST(NcclPricer, BroadcastIsAPipeline) {
  HardwareSpec hardware = DgxA100();
  hardware.intra_node.efficiency = 0.8;
  // All channels take the same path in a node: one hop. Bytes pass every link once.
  EXPECT_NEAR(Cost(hardware, Nodes(1), CollectiveOp::kBroadcast, kGiB).seconds,
              (8.4 + 3.4) * 1e-6 + 1073741824 / 240e9, 1e-9);
}

// A plug-in's latency counts for each hop between nodes, twice under Simple: 2 x (2-1) hops of a
// ring.
TEST(NcclPricer, AddedLatencyOfTheNetwork) {
  HardwareSpec hardware = DgxA100();
  CollectiveModelSpec spec = Nccl();
  spec.algorithm = "ring";
  spec.protocol = "ll";
  const double plain = Cost(hardware, Nodes(2), CollectiveOp::kAllReduce, 8, spec).seconds;
  hardware.network.link.added_latency = Duration{10'000'000};  // 10 us
  EXPECT_NEAR(Cost(hardware, Nodes(2), CollectiveOp::kAllReduce, 8, spec).seconds, plain + 20e-6,
              1e-12);
  spec.protocol = "simple";
  hardware.network.link.added_latency = Duration{};
  const double simple = Cost(hardware, Nodes(2), CollectiveOp::kAllReduce, 8, spec).seconds;
  hardware.network.link.added_latency = Duration{10'000'000};
  EXPECT_NEAR(Cost(hardware, Nodes(2), CollectiveOp::kAllReduce, 8, spec).seconds, simple + 40e-6,
              1e-12);
}

// ---- Corrections ----

TEST(Corrections, ReachThePrice) {
  CollectiveModelSpec spec = Nccl();
  CollectiveCorrection row;
  row.transport = "nvlink";
  row.time_factor = 2;
  row.residual = 0.07;
  spec.correction_table.rows = {row};
  const CollectiveCost plain = Cost(DgxA100(), Nodes(1), CollectiveOp::kAllReduce, kGiB);
  const CollectiveCost cost = Cost(DgxA100(), Nodes(1), CollectiveOp::kAllReduce, kGiB, spec);
  EXPECT_NEAR(cost.seconds - 56e-6, 2 * (plain.seconds - 56e-6), 1e-9);
  EXPECT_EQ(cost.nccl_seconds, plain.nccl_seconds);  // the choice is NCCL's
  EXPECT_EQ(cost.residual, 0.07);
  // Across nodes the slowest link is the network's: another row.
  EXPECT_EQ(Cost(DgxA100(), Nodes(2), CollectiveOp::kAllReduce, kGiB, spec).residual, 0);
}

// ---- Calibration ----

CollectivePoint Point(std::int64_t bytes, double us, std::int64_t ranks = 8) {
  CollectivePoint point;
  point.ranks = ranks;
  point.size = Bytes{bytes};
  point.time = DurationFromSeconds(us * 1e-6);
  return point;
}

// Fitted from 1 KiB to 1 MiB: what lies beyond says so, whatever chose the algorithm.
TEST(Corrections, BeyondTheirSizesAreExtrapolated) {
  CollectiveModelSpec spec;
  CollectiveCorrection row;
  row.residual = 0.05;
  row.smallest = Bytes{1024};
  row.largest = Bytes{kMiB};
  spec.correction_table = {"t", "", {row}};
  const CollectivePricer price(DgxA100(), spec);
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1024}, kMiB, kGiB}) {
    const CollectiveCost cost =
        price({CollectiveOp::kAllReduce, Bytes{bytes}, DType::kFp32, Nodes(1)});
    EXPECT_EQ(cost.is_extrapolated, bytes < 1024 || bytes > kMiB) << bytes;
    EXPECT_EQ(cost.residual, 0.05);
  }
}

TEST(Calibration, PassesThroughThePoints) {
  HardwareSpec hardware = DgxA100();
  hardware.calibration = {Point(kGiB, 9000), Point(kMiB, 60)};  // in any order
  EXPECT_NEAR(Cost(hardware, Nodes(1), CollectiveOp::kAllReduce, kMiB).seconds, 60e-6, 1e-9);
  EXPECT_NEAR(Cost(hardware, Nodes(1), CollectiveOp::kAllReduce, kGiB).seconds, 9000e-6, 1e-9);
}

TEST(Calibration, BeyondThePointsTheirRatioHolds) {
  HardwareSpec hardware = DgxA100();
  const double predicted = Cost(DgxA100(), Nodes(1), CollectiveOp::kAllReduce, kMiB).seconds;
  hardware.calibration = {Point(kMiB, 1.5e6 * predicted)};
  for (const std::int64_t bytes : {std::int64_t{8}, kGiB}) {
    const CollectiveCost cost = Cost(hardware, Nodes(1), CollectiveOp::kAllReduce, bytes);
    EXPECT_TRUE(cost.is_extrapolated);
    EXPECT_NEAR(cost.seconds / Cost(DgxA100(), Nodes(1), CollectiveOp::kAllReduce, bytes).seconds,
                1.5, 1e-4);
  }
}

TEST(Calibration, IsForOneCollectiveAndOneGroup) {
  HardwareSpec hardware = DgxA100();
  hardware.calibration = {Point(kMiB, 1000, 4)};
  EXPECT_EQ(Cost(hardware, Nodes(1), CollectiveOp::kAllReduce, kMiB).seconds,
            Cost(DgxA100(), Nodes(1), CollectiveOp::kAllReduce, kMiB).seconds);
  EXPECT_EQ(Cost(hardware, Nodes(1, 4), CollectiveOp::kAllGather, kMiB).seconds,
            Cost(DgxA100(), Nodes(1, 4), CollectiveOp::kAllGather, kMiB).seconds);
  EXPECT_NEAR(Cost(hardware, Nodes(1, 4), CollectiveOp::kAllReduce, kMiB).seconds, 1e-3, 1e-9);
}

// ---- Two levels ----

CollectiveModelSpec Pinned(std::string algorithm) {
  CollectiveModelSpec spec = Nccl();
  spec.algorithm = std::move(algorithm);
  return spec;
}

TEST(Levels, AreTheSumOfTheirParts) {
  const HardwareSpec hardware = DgxA100();
  const Placement node = Nodes(1);
  Placement rail = Nodes(4, 1);
  rail.job_gpus_per_node = 8;
  const double parts = Cost(hardware, node, CollectiveOp::kReduceScatter, kGiB).seconds +
                       Cost(hardware, rail, CollectiveOp::kAllReduce, kGiB / 8).seconds +
                       Cost(hardware, node, CollectiveOp::kAllGather, kGiB).seconds;
  const CollectiveCost cost =
      Cost(hardware, Nodes(4), CollectiveOp::kAllReduce, kGiB, Pinned("hierarchical"));
  EXPECT_EQ(cost.algorithm, "hierarchical");
  EXPECT_NEAR(cost.seconds, parts, 1e-12);

  const double gather = Cost(hardware, rail, CollectiveOp::kAllGather, kGiB / 8).seconds +
                        Cost(hardware, node, CollectiveOp::kAllGather, kGiB).seconds;
  EXPECT_NEAR(Cost(hardware, Nodes(4), CollectiveOp::kAllGather, kGiB, Pinned("two_level")).seconds,
              gather, 1e-12);
}

// With one rank per node only the step between nodes is left; on one node only those inside.
TEST(Levels, WithOneLevel) {
  const HardwareSpec hardware = DgxA100();
  EXPECT_EQ(
      Cost(hardware, Nodes(4, 1), CollectiveOp::kAllReduce, kGiB, Pinned("hierarchical")).seconds,
      Cost(hardware, Nodes(4, 1), CollectiveOp::kAllReduce, kGiB).seconds);
  EXPECT_NEAR(
      Cost(hardware, Nodes(1), CollectiveOp::kAllReduce, kGiB, Pinned("hierarchical")).seconds,
      Cost(hardware, Nodes(1), CollectiveOp::kReduceScatter, kGiB).seconds +
          Cost(hardware, Nodes(1), CollectiveOp::kAllGather, kGiB).seconds,
      1e-12);
}

TEST(Levels, AreNeverChosenUnasked) {
  const CollectivePricer price(DgxA100(), Nccl());
  for (const CollectiveCost& cost :
       price.Candidates({CollectiveOp::kAllReduce, Bytes{kGiB}, DType::kBf16, Nodes(4)})) {
    EXPECT_NE(cost.algorithm, "hierarchical");
  }
}

// Two levels on 32 nodes: latency linear in nodes + ranks of a node, not in all ranks.
TEST(Levels, SaveTheLatencyOfLongRings) {
  EXPECT_LT(
      Cost(DgxA100(), Nodes(32), CollectiveOp::kAllGather, 16 * kMiB, Pinned("two_level")).seconds,
      0.5 * Cost(DgxA100(), Nodes(32), CollectiveOp::kAllGather, 16 * kMiB).seconds);
}

// ---- Point-to-point ----

// LL below 16 KiB of a channel, Simple above; 1 GiB between two GPUs at 300 GB/s.
TEST(P2p, SendRecv) {
  const CollectiveCost large = Cost(DgxA100(), Nodes(1, 2), CollectiveOp::kSendRecv, kGiB);
  EXPECT_EQ(large.protocol, "simple");
  EXPECT_NEAR(large.seconds, (8.4 + 3.4) * 1e-6 + 1073741824 / 300e9, 1e-9);
  const CollectiveCost small = Cost(DgxA100(), Nodes(1, 2), CollectiveOp::kSendRecv, 8);
  EXPECT_EQ(small.protocol, "ll");
  EXPECT_NEAR(small.seconds, 7.2e-6, 1e-9);
}

// A pipeline stage sends from one GPU of a node: one NIC of 25 GB/s. Eight GPUs on one NIC share
// it.
TEST(P2p, UsesTheNicsOfTheRank) {
  Placement pair = Nodes(2, 1);
  pair.job_gpus_per_node = 8;
  EXPECT_NEAR(Cost(DgxA100(), pair, CollectiveOp::kSendRecv, 8 * kGiB).seconds, 8.0 * kGiB / 25e9,
              1e-4);
  const HardwareSpec one_nic = NvlinkMachine(8.0, 300, 200, "amd", 1);
  EXPECT_NEAR(Cost(one_nic, pair, CollectiveOp::kSendRecv, 8 * kGiB).seconds,
              8.0 * kGiB / (25e9 / 8), 1e-3);
}

// 16 ranks: each sends 8/16 of its bytes to the other node; eight ranks share 200 GB/s.
TEST(P2p, AllToAllAcrossNodes) {
  EXPECT_NEAR(Cost(DgxA100(), Nodes(2), CollectiveOp::kAllToAll, 8 * kGiB).seconds,
              8.0 * kGiB * 0.5 * 8 / 200e9, 1e-4);
}

// ---- Memo ----

TEST(Memo, AnswersTheSame) {
  const CollectivePricer price(DgxH100(), Nccl());
  const CollectiveRequest request{CollectiveOp::kAllReduce, Bytes{kMiB}, DType::kBf16, Nodes(2)};
  const CollectiveCost first = price(request);
  const CollectiveCost again = price(request);
  EXPECT_EQ(first.seconds, again.seconds);
  EXPECT_EQ(first.algorithm, again.algorithm);
  CollectiveRequest other = request;
  other.placement.job_gpus_per_node = 64;  // every part of a request counts
  EXPECT_NE(price(other).seconds, first.seconds);
}

}  // namespace
}  // namespace stepsim
