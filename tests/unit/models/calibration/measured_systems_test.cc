// From the words of a table to a machine, by rules.
#include "models/calibration/measured_systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

MeasuredCollective Point(const std::string& gpu, std::int64_t nodes, std::int64_t gpus,
                         const std::string& nic, const std::string& fabric) {
  MeasuredCollective point;
  point.system_id = "box";
  point.gpu = gpu;
  point.nodes = nodes;
  point.gpus_per_node = gpus;
  point.ranks = nodes * gpus;
  point.nic = nic;
  point.intra_fabric = fabric;
  point.nccl_version = "2.18.5+";
  return point;
}

class MapSystem : public ::testing::Test {
 protected:
  MeasuredSystem Map(const MeasuredCollective& point) const { return mapper_.Map(point); }
  SystemMapper mapper_{testing::ShippedConfigs()};
};

TEST_F(MapSystem, ChoosesTheProfileByGpuAndFabric) {
  const auto name = [&](const std::string& gpu, const std::string& fabric) {
    return Map(Point(gpu, 1, 4, "none", fabric)).hardware.gpu.name;
  };
  EXPECT_EQ(name("A100-SXM4-80GB", "NVSwitch"), "A100-SXM4-80GB");
  EXPECT_EQ(name("A100-SXM4-40GB", "NVSwitch"), "A100-SXM4-40GB");
  EXPECT_EQ(name("A100", "PCIe4"), "A100-PCIE-80GB");
  EXPECT_EQ(name("V100-SXM2-16GB", "NVLink2 hybrid cube mesh"), "V100-SXM2-32GB");
  EXPECT_EQ(name("V100-SXM2-16GB", "PCIe3"), "V100-PCIE-16GB");
}

TEST_F(MapSystem, TheTableOverridesTheNetwork) {
  const MeasuredSystem system = Map(Point("H100-SXM-80GB", 2, 8, "32x100G EFAv2", "NVSwitch"));
  EXPECT_EQ(system.hardware.network.link.type, "efa");
  EXPECT_EQ(system.hardware.network.nics_per_node, 32);
  EXPECT_DOUBLE_EQ(system.hardware.network.link.bandwidth.value, 12.5e9);
  EXPECT_EQ(system.link_class, LinkClass::kCloud);
  EXPECT_EQ(system.model.nccl_version, "2.18.5");
  EXPECT_EQ(system.placement.ranks, 16);
  EXPECT_EQ(system.placement.ranks_per_node, 8);
}

TEST_F(MapSystem, KnowsTheClasses) {
  const auto class_of = [&](const std::string& gpu, std::int64_t nodes, std::int64_t gpus,
                            const std::string& nic, const std::string& fabric) {
    return Map(Point(gpu, nodes, gpus, nic, fabric)).link_class;
  };
  EXPECT_EQ(class_of("B200", 1, 8, "none", "NVSwitch5"), LinkClass::kNvlink);
  EXPECT_EQ(class_of("B200", 2, 8, "8x400G RoCE gIB", "NVSwitch5"), LinkClass::kInfiniband);
  EXPECT_EQ(class_of("GB200", 2, 72, "2 NVL72 racks + 4x400G IB/tray", "MNNVL"),
            LinkClass::kMultiRack);
  EXPECT_EQ(class_of("GB200", 1, 72, "NVL72 MNNVL", "MNNVL"), LinkClass::kNvlink);
  EXPECT_EQ(class_of("RTX4090", 1, 4, "none", "PCIe no P2P (SHM)"), LinkClass::kPcie);
  EXPECT_EQ(class_of("RTX4090", 2, 4, "10G Ethernet", "PCIe4"), LinkClass::kTcp);
  EXPECT_EQ(class_of("GH200", 2, 1, "200G Slingshot-11", "none"), LinkClass::kCloud);
}

TEST_F(MapSystem, AnUnknownGpuIsReportedNotDropped) {
  const MeasuredSystem system = Map(Point("Q9000", 1, 8, "none", "NVSwitch"));
  EXPECT_EQ(system.status, PointStatus::kNotPredicted);
  EXPECT_THAT(system.reason, HasSubstr("Q9000"));
}

TEST_F(MapSystem, WordsOfTheTableKeepASystemOut) {
  MeasuredCollective degraded = Point("H100", 2, 8, "8x400G IB NDR (misconfigured)", "NVSwitch");
  EXPECT_EQ(Map(degraded).status, PointStatus::kKeptOut);
  MeasuredCollective unknown = Point("H200", 2, 1, "1 NIC per GPU, speed not stated", "none");
  EXPECT_EQ(Map(unknown).status, PointStatus::kKeptOut);
  // Rings over part of a cube mesh: four of six links with four GPUs, all with eight.
  MeasuredCollective part = Point("V100-SXM2", 1, 4, "none", "NVLink2 hybrid cube mesh");
  MeasuredCollective whole = Point("V100-SXM2", 1, 8, "none", "NVLink2 hybrid cube mesh");
  EXPECT_EQ(Map(part).status, PointStatus::kKeptOut);
  EXPECT_EQ(Map(whole).status, PointStatus::kScored);
  EXPECT_DOUBLE_EQ(Map(part).hardware.intra_node.bandwidth.value,
                   Map(whole).hardware.intra_node.bandwidth.value * 4 / 6);
}

TEST_F(MapSystem, TheIdSaysHowItWasMeasured) {
  MeasuredCollective point = Point("H200", 1, 8, "none", "NVSwitch");
  point.system_id = "lab_h200_g8_ring";
  EXPECT_EQ(Map(point).model.algorithm, "ring");
  point.system_id = "lab_h200_symk";
  EXPECT_TRUE(Map(point).model.symmetric_memory);
}

TEST(SystemGroup, LeavesTheCluster) {
  EXPECT_EQ(SystemGroup("stas_b200_1n_g4_ring"), "stas_b200_1n");
  EXPECT_EQ(SystemGroup("vtrain_a100_8"), "vtrain_a100");
  EXPECT_EQ(SystemGroup("oci_gb300_64_a2a"), "oci_gb300");
  EXPECT_EQ(SystemGroup("jz_v100_16_opa"), SystemGroup("jz_v100_64_opa"));
  EXPECT_EQ(SystemGroup("l40s_2n_1g"), SystemGroup("l40s_2n_2g"));
  EXPECT_NE(SystemGroup("aws_p5_1n_batch"), SystemGroup("aws_p5_2n_eks"));
  EXPECT_EQ(SystemGroup("100"), "100");
  EXPECT_EQ(SystemGroup(""), "");
}

}  // namespace
}  // namespace stepsim
