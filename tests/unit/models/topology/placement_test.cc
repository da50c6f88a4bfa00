#include "models/topology/placement.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/base/check.h"

namespace stepsim {
namespace {

// 100 GB/s x 0.8 between GPUs, hops of 2 us; two adapters of 12.5 GB/s x 0.8, hops of 5 us.
HardwareSpec SlowNetwork() {
  HardwareSpec hardware;
  hardware.intra_node = {"nvlink", {100e9}, 0.8, Duration{2'000'000}};
  hardware.network.nics_per_node = 2;
  hardware.network.link = {"infiniband", {12.5e9}, 0.8, Duration{5'000'000}};
  return hardware;
}

void ExpectPlacement(const Placement& placement, std::int64_t ranks, std::int64_t nodes,
                     std::int64_t ranks_per_node) {
  EXPECT_EQ(placement.ranks, ranks);
  EXPECT_EQ(placement.nodes, nodes);
  EXPECT_EQ(placement.ranks_per_node, ranks_per_node);
}

TEST(PlaceGroup, FillsNodesInOrder) {
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{0, 1, 2, 3}, 8), 4, 1, 4);
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{6, 7, 8, 9}, 8), 4, 2, 2);
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{0, 1, 2, 3}, 1), 4, 4, 1);
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{5}, 8), 1, 1, 1);
}

// The same GPU of every node: a data-parallel group beside tensor parallelism.
TEST(PlaceGroup, SeesStridedGroups) {
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{1, 9, 17}, 8), 3, 3, 1);
}

TEST(PlaceGroup, TakesTheFullestNode) {
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{0, 1, 2, 8}, 8), 4, 2, 3);
  ExpectPlacement(PlaceGroup(std::vector<std::int32_t>{7, 8, 9, 10}, 8), 4, 2, 3);
}

TEST(PlaceGroup, RefusesAnEmptyGroup) {
  EXPECT_THROW(PlaceGroup({}, 8), InternalError);
  EXPECT_THROW(PlaceGroup(std::vector<std::int32_t>{0}, 0), InternalError);
}

TEST(Links, ReachTheirEfficiency) {
  EXPECT_DOUBLE_EQ(IntraNode(SlowNetwork()).bandwidth.value, 80e9);
  EXPECT_EQ(IntraNode(SlowNetwork()).latency, Duration{2'000'000});
  EXPECT_DOUBLE_EQ(GroupUplink(SlowNetwork(), {16, 2, 8}).bandwidth.value, 20e9);  // 2 x 12.5 x 0.8
  EXPECT_EQ(GroupUplink(SlowNetwork(), {16, 2, 8}).latency, Duration{5'000'000});
}

TEST(SlowestOfRing, StaysInsideOneNode) {
  const LinkShare link = SlowestOfRing(SlowNetwork(), {8, 1, 8});
  EXPECT_DOUBLE_EQ(link.bandwidth.value, 80e9);
  EXPECT_EQ(link.latency, Duration{2'000'000});
}

TEST(SlowestOfRing, IsTheNetworkAcrossNodes) {
  const LinkShare link = SlowestOfRing(SlowNetwork(), {16, 2, 8});
  EXPECT_DOUBLE_EQ(link.bandwidth.value, 20e9);
  EXPECT_EQ(link.latency, Duration{5'000'000});
}

// A PCIe box with a good network: the ring moves at PCIe's rate and the network's latency.
TEST(SlowestOfRing, MayBeTheLinkInsideTheNode) {
  HardwareSpec hardware = SlowNetwork();
  hardware.intra_node.bandwidth = {10e9};
  const LinkShare link = SlowestOfRing(hardware, {16, 2, 8});
  EXPECT_DOUBLE_EQ(link.bandwidth.value, 8e9);
  EXPECT_EQ(link.latency, Duration{5'000'000});
}

// One GPU per node: no byte passes a link inside a node, however slow it is.
TEST(SlowestOfRing, WithOneRankPerNodeIsTheNetworkAlone) {
  HardwareSpec hardware = SlowNetwork();
  hardware.intra_node.bandwidth = {1e9};
  hardware.intra_node.latency = Duration{99'000'000};
  const LinkShare link = SlowestOfRing(hardware, {4, 4, 1});
  EXPECT_DOUBLE_EQ(link.bandwidth.value, 20e9);
  EXPECT_EQ(link.latency, Duration{5'000'000});
}

// ---- NICs of a group ----

// Eight GPUs with a NIC each, 12.5 GB/s.
HardwareSpec Rails(std::int64_t nics) {
  HardwareSpec hardware;
  hardware.gpus_per_node = 8;
  hardware.network.nics_per_node = nics;
  hardware.network.link = {"infiniband", {12.5e9}, 1, Duration{}};
  return hardware;
}

// The same GPU of every node, in a job on all GPUs; its seven siblings work at the same time.
Placement Strided(std::int64_t nodes) { return {nodes, nodes, 1, 8, 0, 0}; }

TEST(Nics, EachRankHasItsOwn) {
  EXPECT_DOUBLE_EQ(NicsInReach(Rails(8), Strided(4)), 1);
  EXPECT_DOUBLE_EQ(NicsAtOnce(Rails(8), Strided(4)), 1);
  EXPECT_DOUBLE_EQ(NicsInReach(Rails(32), Strided(4)), 4);
  EXPECT_DOUBLE_EQ(GroupUplink(Rails(8), Strided(4)).bandwidth.value, 12.5e9);
  EXPECT_DOUBLE_EQ(GroupUplink(Rails(8), {32, 4, 8, 8, 0, 0}).bandwidth.value, 100e9);
}

TEST(Nics, SiblingsShareWhereThereAreFew) {
  EXPECT_DOUBLE_EQ(NicsInReach(Rails(4), Strided(4)), 1);  // it sees the neighbour's
  EXPECT_DOUBLE_EQ(NicsAtOnce(Rails(4), Strided(4)), 0.5);
  EXPECT_DOUBLE_EQ(NicsAtOnce(Rails(1), Strided(4)), 0.125);
  EXPECT_DOUBLE_EQ(NicsAtOnce(Rails(1), {32, 4, 8, 8, 0, 0}), 1);  // one group has it all
}

// A job that uses one GPU of each node has no siblings.
TEST(Nics, AreNotSharedWithIdleGpus) {
  EXPECT_DOUBLE_EQ(NicsAtOnce(Rails(1), {4, 4, 1, 1, 0, 0}), 1);
  EXPECT_DOUBLE_EQ(NicsAtOnce(Rails(8), {4, 4, 1, 1, 0, 0}), 1);  // and not more than its own
}

TEST(Spine, IsSeenByGroupsThatLeaveTheirLeaf) {
  HardwareSpec hardware = Rails(8);
  hardware.network.oversubscription = 4;
  const auto uplink = [&](const Placement& placement) {
    return GroupUplink(hardware, placement).bandwidth.value;
  };
  EXPECT_DOUBLE_EQ(uplink({16, 2, 8}), 25e9);  // no leaf given: two nodes already meet it
  hardware.network.nodes_per_leaf = 4;
  EXPECT_DOUBLE_EQ(uplink({32, 4, 8}), 100e9);
  EXPECT_DOUBLE_EQ(uplink({40, 5, 8}), 25e9);
  // Two nodes that happen to lie under different leaves: 3 and 4; 0 and 7.
  EXPECT_DOUBLE_EQ(uplink({16, 2, 8, 8, 3, 4}), 25e9);
  EXPECT_DOUBLE_EQ(uplink({16, 2, 8, 8, 0, 7}), 25e9);
  EXPECT_DOUBLE_EQ(uplink({16, 2, 8, 8, 4, 5}), 100e9);
}

TEST(PlaceGroup, KnowsTheNodesAndTheJob) {
  const Placement placement = PlaceGroup(std::vector<std::int32_t>{17, 25, 33}, 8);
  EXPECT_EQ(placement.first_node, 2);
  EXPECT_EQ(placement.last_node, 4);
  EXPECT_EQ(placement.job_gpus_per_node, 8);
}

}  // namespace
}  // namespace stepsim
