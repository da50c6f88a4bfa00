// Words about networks, fabrics and GPUs, as published tables spell them (docs of nccl-tests
// results: AWS, GKE, OCI, CoreWeave, Azure, dstack).
#include "models/calibration/system_text.h"

#include <gtest/gtest.h>

#include <string>

namespace stepsim {
namespace {

struct NicCase {
  const char* text;
  std::int64_t gpus_per_node;
  const char* transport;
  std::int64_t count;
  double gigabits;  // of one
};

TEST(ParseNic, ReadsCountSpeedAndTransport) {
  const NicCase cases[] = {
      {"8x400G IB NDR", 8, "infiniband", 8, 400},
      {"8x200G IB HDR (Azure ND A100 v4)", 8, "infiniband", 8, 200},
      {"32x100G EFAv2", 8, "efa", 32, 100},
      {"8x400G EFAv4 (P6-B200)", 8, "efa", 8, 400},
      {"100G EFA (p3dn, no GDR)", 1, "efa", 1, 100},
      {"8x2x100G RoCE (BM.GPU.B4.8)", 8, "roce", 16, 100},
      {"8x400G RoCE gIB", 8, "roce", 8, 400},
      {"8x400G RoCE BlueField-3", 8, "roce", 8, 400},
      {"200G ConnectX-7 RoCE", 1, "roce", 1, 200},
      {"GCP A3-High 4x200G TCPX", 8, "tcpx", 4, 200},
      {"GCP A3-Mega 8x200G TCPXO", 8, "tcpxo", 8, 200},
      {"4x100G Omni-Path", 4, "omnipath", 4, 100},
      {"200G Slingshot-11", 1, "slingshot", 1, 200},
      {"20 NVL72 racks + 4x400G IB/tray", 72, "infiniband", 72, 400},
      {"2 NVL72 racks, RoCE (800G per GPU class)", 64, "roce", 64, 800},
      {"8 rails RoCE Spectrum-X (SHM off)", 8, "roce", 8, 0},
      {"1 mlx5 NIC per GPU, speed not stated", 1, "roce", 1, 0},
      {"IB HDR, SHARP plugin (CollNet)", 8, "infiniband", 0, 200},
      {"ConnectX, speed not stated (NCCL_IB_DISABLE=1 in the command)", 1, "ethernet", 0, 0},
      {"unnamed (about 4x or 8x100-200G)", 8, "", 0, 0},
      {"10G Ethernet", 4, "ethernet", 1, 10},
      {"99999999x99999999x1G IB", 8, "infiniband", 0, 0},
  };
  for (const NicCase& c : cases) {
    const NicText nic = ParseNic(c.text, c.gpus_per_node);
    EXPECT_EQ(nic.transport, c.transport) << c.text;
    EXPECT_EQ(nic.count, c.count) << c.text;
    EXPECT_DOUBLE_EQ(nic.bandwidth.value, c.gigabits * 1e9 / 8) << c.text;
    EXPECT_FALSE(nic.is_none) << c.text;
  }
  EXPECT_TRUE(ParseNic("none", 8).is_none);
  EXPECT_TRUE(ParseNic("", 8).is_none);
}

TEST(ParseFabric, TellsNvlinkFromPcie) {
  for (const char* text : {"NVSwitch", "NVSwitch5", "NVSwitch/NVLink3", "MNNVL"}) {
    const FabricText fabric = ParseFabric(text);
    EXPECT_EQ(fabric.type, "nvlink") << text;
    EXPECT_FALSE(fabric.is_cube_mesh) << text;
  }
  EXPECT_TRUE(ParseFabric("MNNVL").is_multi_node);
  EXPECT_TRUE(ParseFabric("NVLink2 hybrid cube mesh").is_cube_mesh);
  EXPECT_EQ(ParseFabric("PCIe no P2P (SHM)").type, "pcie");
  EXPECT_EQ(ParseFabric("PCIe4").type, "pcie");
  EXPECT_DOUBLE_EQ(ParseFabric("PCIe4").bandwidth.value, 32e9);  // 16 lanes of 2 GB/s
  EXPECT_EQ(ParseFabric("none").type, "");
}

TEST(GpuModel, LeavesOutFormAndMemory) {
  EXPECT_EQ(GpuModel("A100-SXM4-80GB"), "a100");
  EXPECT_EQ(GpuModel("A100-PCIE-80GB"), "a100");
  EXPECT_EQ(GpuModel("H100-SXM-80GB or H200"), "h100");
  EXPECT_EQ(GpuModel("RTX4090"), GpuModel("RTX 4090"));
  EXPECT_EQ(GpuModel("GB10 (DGX Spark)"), "gb10");
  EXPECT_EQ(GpuModel("RTX PRO 6000-class (unnamed)"), "rtxpro6000");
  EXPECT_NE(GpuModel("GH200"), GpuModel("H200"));
}

TEST(Words, AreLowerCaseAndApart) {
  EXPECT_EQ(Words("8x400G IB-NDR"), "8x400g ib ndr");
  EXPECT_TRUE(HasWord("8x400g ib ndr", "ib"));
  EXPECT_FALSE(HasWord("8x400g gib", "ib"));
  EXPECT_TRUE(HasWordBeginning("nvswitch5", "nv"));
}

}  // namespace
}  // namespace stepsim
