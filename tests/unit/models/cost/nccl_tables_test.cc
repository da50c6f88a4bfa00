#include "models/cost/nccl_tables.h"

#include <gtest/gtest.h>

#include <string_view>

namespace stepsim {
namespace {

double Hop(std::string_view version, NcclLink link, NcclAlgorithm algorithm,
           NcclProtocol protocol = NcclProtocol::kSimple) {
  return NcclTableFor(version).hop_us[NcclIndex(link)][NcclIndex(algorithm)][NcclIndex(protocol)];
}

TEST(NcclTables, TheNewestThatIsNotNewer) {
  EXPECT_EQ(NcclTableFor("2.18.5+").name, "2.18");
  EXPECT_EQ(NcclTableFor("2.20.5").name, "2.19");
  EXPECT_EQ(NcclTableFor("2.22.3").name, "2.21");
  EXPECT_EQ(NcclTableFor("2.24.3").name, "2.23");
  EXPECT_EQ(NcclTableFor("2.27.7").name, "2.25");
  EXPECT_EQ(NcclTableFor("2.28.9").name, "2.28");
  EXPECT_EQ(NcclTableFor("2.30.7").name, "2.30");
  EXPECT_EQ(NcclTableFor("2.99").name, "2.30");
  EXPECT_EQ(NcclTableFor("3.1").name, "2.30");
  EXPECT_EQ(NcclTableFor("2.7.8").name, "2.18");  // the oldest we have
}

// src/graph/tuning.cc of the releases. Where two releases differ, both sides.
TEST(NcclTables, LatenciesChangedWithTheReleases) {
  using A = NcclAlgorithm;
  EXPECT_EQ(Hop("2.18", NcclLink::kNvlink, A::kTree), 4);
  EXPECT_EQ(Hop("2.19", NcclLink::kNvlink, A::kTree), 28);  // a chunk's time included
  EXPECT_EQ(Hop("2.23", NcclLink::kNvlink, A::kTree), 4);
  EXPECT_EQ(Hop("2.20", NcclLink::kNvlink, A::kNvls), 23);
  EXPECT_EQ(Hop("2.21", NcclLink::kNvlink, A::kNvls), 25);
  EXPECT_EQ(Hop("2.27", NcclLink::kNet, A::kNvlsTree), 14);
  EXPECT_EQ(Hop("2.28", NcclLink::kNet, A::kNvlsTree), 20.9);
  EXPECT_EQ(Hop("2.30", NcclLink::kPci, A::kRing, NcclProtocol::kLl128), 2.5);
}

TEST(NcclTables, LimitsByGeneration) {
  const auto hopper = NcclIndex(GpuGeneration::kHopper);
  const auto blackwell = NcclIndex(GpuGeneration::kBlackwell);
  EXPECT_EQ(NcclTableFor("2.20").ll_limit[hopper][0], 87.7);
  EXPECT_EQ(NcclTableFor("2.21").ll_limit[hopper][0], 141);
  EXPECT_EQ(NcclTableFor("2.25").ll_limit[blackwell][0], 282);
  EXPECT_EQ(NcclTableFor("2.27").ring_ll128_limit[blackwell][1], 73.4);
  EXPECT_EQ(NcclTableFor("2.28").ring_ll128_limit[blackwell][1], 34.6);
  EXPECT_EQ(NcclTableFor("2.29").ring_ll128_limit[blackwell][1], 40);
  EXPECT_EQ(NcclTableFor("2.29").nvls_tree_limit[blackwell][2], 43.8);
  EXPECT_EQ(NcclTableFor("2.30").nvls_tree_limit[blackwell][2], 80);
}

// 64 B, 128 B, ... 256 MiB; a size between two steps takes the lower one.
TEST(TreeCorrection, StepsByPowersOfTwo) {
  constexpr double kKiB = 1024, kMiB = 1024 * kKiB;
  EXPECT_EQ(TreeCorrection(NcclProtocol::kLl, 8), 1);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kLl, 4 * kKiB), 0.7);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kLl, 512 * kKiB), 0.4);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kLl128, 1023 * kKiB), 0.6);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kSimple, 64), 0.9);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kSimple, 8 * kMiB), 0.8);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kSimple, 511 * kMiB), 0.9);
  EXPECT_EQ(TreeCorrection(NcclProtocol::kSimple, 512 * kMiB), 1);
}

}  // namespace
}  // namespace stepsim
