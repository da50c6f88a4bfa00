// Every algorithm against numbers worked out by hand from the equations of models/README.md,
// "Collectives".
#include "models/cost/alpha_beta.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr double kMs = 1e-3;
constexpr double kUs = 1e-6;

// Inside a node 80 GB/s and 2 us a hop, the node's adapters together 20 GB/s and 5 us: 80 MB take
// 1 ms on the one and 4 ms on the other.
HardwareSpec Hardware() {
  HardwareSpec hardware;
  hardware.intra_node = {"nvlink", {100e9}, 0.8, Duration{2'000'000}};
  hardware.network.nics_per_node = 2;
  hardware.network.link = {"infiniband", {12.5e9}, 0.8, Duration{5'000'000}};
  return hardware;
}

constexpr Placement kAlone{1, 1, 1};
constexpr Placement kOneNode{4, 1, 4};
constexpr Placement kTwoNodes{8, 2, 4};
constexpr Placement kOnePerNode{4, 4, 1};

CollectiveRequest Request(CollectiveOp op, Placement placement) {
  return {op, Bytes{80'000'000}, DType::kFp32, placement};
}
double Ring(CollectiveOp op, Placement placement) {
  return RingSeconds(Request(op, placement), Hardware());
}
double Hierarchical(Placement placement) {
  return HierarchicalAllReduceSeconds(Request(CollectiveOp::kAllReduce, placement), Hardware());
}

// 2 (n-1) steps that move bytes / n each.
TEST(Ring, AllReduce) {
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kAllReduce, kOneNode), 6 * 2 * kUs + 6.0 / 4 * 1 * kMs);
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kAllReduce, kTwoNodes), 14 * 5 * kUs + 14.0 / 8 * 4 * kMs);
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kAllReduce, kOnePerNode), 6 * 5 * kUs + 6.0 / 4 * 4 * kMs);
}

// Half of an all_reduce each.
TEST(Ring, AllGatherAndReduceScatter) {
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    EXPECT_DOUBLE_EQ(Ring(op, kOneNode), 3 * 2 * kUs + 3.0 / 4 * 1 * kMs);
    EXPECT_DOUBLE_EQ(Ring(op, kTwoNodes), 7 * 5 * kUs + 7.0 / 8 * 4 * kMs);
    EXPECT_DOUBLE_EQ(Ring(op, kOnePerNode), 3 * 5 * kUs + 3.0 / 4 * 4 * kMs);
  }
}

// Pipelined: all bytes pass every link once, the last rank is n-1 hops behind.
TEST(Ring, BroadcastAndReduce) {
  for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce}) {
    EXPECT_DOUBLE_EQ(Ring(op, kOneNode), 3 * 2 * kUs + 1 * kMs);
    EXPECT_DOUBLE_EQ(Ring(op, kTwoNodes), 7 * 5 * kUs + 4 * kMs);
    EXPECT_DOUBLE_EQ(Ring(op, kOnePerNode), 3 * 5 * kUs + 4 * kMs);
  }
}

// Pairs: n-1 rounds, each with an n-th of the bytes.
TEST(Ring, AllToAll) {
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kAllToAll, kOneNode), 3 * 2 * kUs + 3.0 / 4 * 1 * kMs);
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kAllToAll, kTwoNodes), 7 * 5 * kUs + 7.0 / 8 * 4 * kMs);
}

TEST(Ring, SendRecv) {
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kSendRecv, kOneNode), 2 * kUs + 1 * kMs);
  EXPECT_DOUBLE_EQ(Ring(CollectiveOp::kSendRecv, kOnePerNode), 5 * kUs + 4 * kMs);
}

// Inside: 2 x (3 hops + 3/4 of 1 ms). Across two nodes: 2 x (1 hop + 1/2 of 4 ms).
TEST(Hierarchical, AddsItsPhases) {
  EXPECT_DOUBLE_EQ(Hierarchical(kTwoNodes),
                   2 * (3 * 2 * kUs + 0.75 * kMs) + 2 * (1 * 5 * kUs + 0.5 * 4 * kMs));
}

// With one node, or one rank on each, a single phase is left: the ring's.
TEST(Hierarchical, IsARingWhereThereIsOneLevel) {
  EXPECT_DOUBLE_EQ(Hierarchical(kOneNode), Ring(CollectiveOp::kAllReduce, kOneNode));
  EXPECT_DOUBLE_EQ(Hierarchical(kOnePerNode), Ring(CollectiveOp::kAllReduce, kOnePerNode));
}

TEST(Hierarchical, IsAnAllReduce) {
  EXPECT_THROW(
      HierarchicalAllReduceSeconds(Request(CollectiveOp::kAllGather, kTwoNodes), Hardware()),
      InternalError);
}

// Every message crosses the link twice: 2 (n-1) steps of two hops. The share of the link is that of
// the time in which bytes move.
TEST(Gloo, AnnouncesEveryMessage) {
  CollectiveModelSpec spec;
  spec.model = CollectiveModel::kGloo;
  const CollectivePricer price(Hardware(), spec);
  const CollectiveCost two =
      price({CollectiveOp::kAllReduce, Bytes{80'000'000}, DType::kFp32, {2, 2, 1}});
  EXPECT_DOUBLE_EQ(two.seconds, 4 * 5 * kUs + 4 * kMs);
  EXPECT_DOUBLE_EQ(two.latency_seconds, 4 * 5 * kUs);
  EXPECT_NEAR(two.network_share, 4 / 4.02, 1e-12);
  EXPECT_EQ(two.intra_share, 0);
  EXPECT_EQ(two.sms, 0);
  const CollectiveCost broadcast =
      price({CollectiveOp::kBroadcast, Bytes{80'000'000}, DType::kFp32, kOneNode});
  EXPECT_DOUBLE_EQ(broadcast.seconds, 3 * 2 * 2 * kUs + 1 * kMs);
  EXPECT_NEAR(broadcast.intra_share, 1 / 1.012, 1e-12);
  EXPECT_EQ(price({CollectiveOp::kAllReduce, Bytes{8}, DType::kFp32, kAlone}).seconds, 0);
}

}  // namespace
}  // namespace stepsim
