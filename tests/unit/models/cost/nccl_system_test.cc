// Channels of the graph search. The first table is NCCL's own for these systems
// (src/graph/search.cc, connect.cc; what NCCL_DEBUG_SUBSYS=GRAPH logs); execution channels are the
// thread blocks of a call.
#include "models/cost/nccl_system.h"

#include <gtest/gtest.h>

#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

NcclSystem Search(const HardwareSpec& hardware, const Placement& placement,
                  std::string_view version = "2.27") {
  return SearchSystem(hardware, placement, NcclTableFor(version));
}

void ExpectRing(const HardwareSpec& hardware, const Placement& placement, double channels,
                double speed, std::int64_t ctas) {
  const NcclSystem system = Search(hardware, placement);
  EXPECT_EQ(system.ring.channels, channels);
  EXPECT_EQ(system.ring.intra, speed);
  EXPECT_EQ(system.ring.inter, speed);
  EXPECT_EQ(system.ring_ctas, ctas);
}

TEST(ChannelSearch, TheKnownSystems) {
  ExpectRing(Dgx1(), Nodes(1), 6, 20, 12);
  ExpectRing(DgxA100(), Nodes(1), 12, 20, 24);
  ExpectRing(DgxH100(), Nodes(1), 12, 30, 24);
  ExpectRing(DgxB200(), Nodes(1), 16, 45, 32);
  ExpectRing(DgxA100(), Nodes(2), 8, 24, 16);
  ExpectRing(DgxH100(), Nodes(2), 8, 45, 16);
  ExpectRing(DgxB200(), Nodes(2), 8, 48, 16);
}

// Releases from 2.28 on take 16 thread blocks of a Blackwell GPU instead of 32.
TEST(ChannelSearch, BlackwellSparesSmsSince228) {
  EXPECT_EQ(Search(DgxB200(), Nodes(1), "2.28").ring_ctas, 16);
  EXPECT_EQ(Search(DgxH100(), Nodes(1), "2.28").ring_ctas, 24);
}

// p4d: four 100 Gb/s adapters carry 12 GB/s each. One 10 Gb/s port carries 1.2 GB/s.
TEST(ChannelSearch, FollowsTheNics) {
  const NcclSystem p4d = Search(NvlinkMachine(8.0, 300, 100, "intel", 4), Nodes(2));
  EXPECT_EQ(p4d.ring.channels * p4d.ring.inter, 48);
  const NcclSystem slow = Search(NvlinkMachine(8.0, 300, 10, "intel", 1), Nodes(2));
  EXPECT_DOUBLE_EQ(slow.ring.channels * slow.ring.inter, 1.2);
  // p5: 32 adapters of 100 Gb/s, four of a GPU count as one of 400 Gb/s.
  const NcclSystem p5 = Search(NvlinkMachine(9.0, 450, 100, "amd", 32), Nodes(2));
  EXPECT_EQ(p5.ring.channels * p5.ring.inter, 360);
}

// One rank per node has its own adapter and nothing inside the node to wait for.
TEST(ChannelSearch, OneRankPerNode) {
  Placement placement = Nodes(4, 1);
  placement.job_gpus_per_node = 8;
  const NcclSystem system = Search(DgxA100(), placement);
  EXPECT_EQ(system.ring.channels * system.ring.inter, 24);
  EXPECT_TRUE(system.has_plain_tree);
}

TEST(ChannelSearch, PciBoxes) {
  HardwareSpec box = NvlinkMachine(8.0, 32, 100, "intel", 1);
  box.intra_node.type = "pcie";
  box.switched = false;
  const NcclSystem half = Search(box, Nodes(1, 4));
  EXPECT_EQ(half.ring.channels * half.ring.intra, 24);  // 16 lanes of generation 4
  EXPECT_EQ(half.intra_link, NcclLink::kPci);
  EXPECT_FALSE(half.has_ll128_path);
  const NcclSystem whole = Search(box, Nodes(1, 8));
  EXPECT_EQ(whole.ring.channels * whole.ring.intra, 10);  // through the link between sockets
}

// NVLS: a channel per GPU; the fastest speed at which all of them fit into 18 links x 20.6 GB/s.
TEST(ChannelSearch, HeadsOfTheSwitch) {
  EXPECT_EQ(Search(DgxH100(), Nodes(1, 8)).nvls.intra, 40);
  EXPECT_EQ(Search(DgxH100(), Nodes(1, 7)).nvls.intra, 50);
  EXPECT_EQ(Search(DgxH100(), Nodes(1, 4)).nvls.intra, 60);
  EXPECT_EQ(Search(DgxH100(), Nodes(1, 4)).nvls.channels, 4);
  EXPECT_EQ(Search(DgxA100(), Nodes(1, 8)).nvls.channels, 0);  // no multicast before Hopper
}

// ---- What the links deliver ----

double DeliveredRing(const HardwareSpec& hardware, const Placement& placement) {
  const NcclSystem system =
      WithDeliveredRates(Search(hardware, placement, "2.30"), hardware, placement);
  return system.ring.channels * system.ring.intra;
}

TEST(DeliveredRates, AreNominalTimesEfficiency) {
  HardwareSpec hardware = DgxA100();
  hardware.intra_node.efficiency = 0.77;
  hardware.network.link.efficiency = 0.945;
  EXPECT_DOUBLE_EQ(DeliveredRing(hardware, Nodes(1)), 231);
  EXPECT_DOUBLE_EQ(DeliveredRing(hardware, Nodes(2)), 189);
  hardware.network.link.efficiency = 1;
  hardware.network.link.bandwidth = {400e9 / 8};
  EXPECT_DOUBLE_EQ(DeliveredRing(hardware, Nodes(2)), 231);  // NVLink is the slower one now
}

// 4 connections of 1.5 GB/s do not fill a 100 Gb/s port.
TEST(DeliveredRates, SocketsAreLimitedByTheirConnections) {
  HardwareSpec hardware = NvlinkMachine(8.0, 300, 100, "intel", 1);
  hardware.network.link.type = "ethernet";
  hardware.network.link.streams = 4;
  hardware.network.link.stream_bandwidth = {1.5e9};
  EXPECT_DOUBLE_EQ(DeliveredRing(hardware, Nodes(2)), 6);
  hardware.network.link.streams = 16;
  EXPECT_DOUBLE_EQ(DeliveredRing(hardware, Nodes(2)), 12.5);
}

}  // namespace
}  // namespace stepsim
