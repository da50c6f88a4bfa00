// What collectives hold. Counts as NCCL's sources and its users report them (models/README.md,
// "What a collective occupies").
#include <gtest/gtest.h>

#include <string>

#include "models/cost/collective_cost.h"
#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::int64_t kGiB = 1024 * kMiB;

HardwareSpec WithSms(HardwareSpec hardware) {
  hardware.gpu.sms = 132;
  return hardware;
}

CollectiveCost Cost(const HardwareSpec& hardware, const Placement& placement,
                    const CollectiveModelSpec& spec, std::int64_t bytes = kGiB,
                    CollectiveOp op = CollectiveOp::kAllReduce) {
  return CollectivePricer(WithSms(hardware), spec)({op, Bytes{bytes}, DType::kBf16, placement});
}

TEST(Occupancy, RingsOfOneNode) {
  CollectiveModelSpec spec = Nccl("2.27");
  spec.algorithm = "ring";
  EXPECT_EQ(Cost(DgxA100(), Nodes(1), spec).sms, 24);
  EXPECT_EQ(Cost(DgxH100(), Nodes(1), spec).sms, 24);
  EXPECT_EQ(Cost(DgxB200(), Nodes(1), spec).sms, 32);
  spec.nccl_version = "2.28";
  EXPECT_EQ(Cost(DgxB200(), Nodes(1), spec).sms, 16);
  spec.min_ctas = spec.max_ctas = 32;  // "MIN/MAX_CTAS=32 restores"
  EXPECT_EQ(Cost(DgxB200(), Nodes(1), spec).sms, 32);
}

TEST(Occupancy, BetweenNodes) {
  EXPECT_EQ(Cost(DgxH100(), Nodes(2), Nccl("2.27")).sms, 16);
  CollectiveModelSpec spec = Nccl("2.27");
  spec.registered_buffers = true;
  const CollectiveCost tree = Cost(DgxH100(), Nodes(2), spec);
  EXPECT_EQ(tree.algorithm, "nvls_tree");
  EXPECT_EQ(tree.sms, 6);  // NVLSTree with registered buffers, NVIDIA at GTC 2024
}

TEST(Occupancy, Nvls) {
  EXPECT_EQ(Cost(DgxH100(), Nodes(1), Nccl("2.27")).sms, 16);
  EXPECT_EQ(Cost(DgxB200(), Nodes(1), Nccl("2.27")).sms, 24);
}

// Megatron-LM's documentation: all_gather and reduce_scatter with registered buffers take 4 and 5
// SMs.
TEST(Occupancy, RegisteredNvls) {
  const auto sms = [](const HardwareSpec& hardware, CollectiveOp op) {
    CollectiveModelSpec spec = Nccl("2.30");
    spec.algorithm = "nvls";
    spec.registered_buffers = true;
    return Cost(hardware, Nodes(1), spec, kGiB, op).sms;
  };
  EXPECT_EQ(sms(DgxH100(), CollectiveOp::kAllGather), 4);
  EXPECT_EQ(sms(DgxH100(), CollectiveOp::kReduceScatter), 5);
  EXPECT_EQ(sms(DgxH100(), CollectiveOp::kAllReduce), 4);
  EXPECT_EQ(sms(DgxB200(), CollectiveOp::kAllGather), 4);
  EXPECT_EQ(sms(DgxB200(), CollectiveOp::kReduceScatter), 6);
  EXPECT_EQ(sms(DgxB200(), CollectiveOp::kAllReduce), 8);
}

// With registered buffers NCCL gathers in the switch to spare SMs: always before 2.27, since then
// under the efficiency policy.
TEST(Occupancy, RegisteredGathersMoveToTheSwitch) {
  CollectiveModelSpec spec = Nccl("2.26");
  const auto algorithm = [&] {
    return std::string(Cost(DgxH100(), Nodes(1), spec, kGiB, CollectiveOp::kAllGather).algorithm);
  };
  EXPECT_EQ(algorithm(), "ring");
  spec.registered_buffers = true;
  EXPECT_EQ(algorithm(), "nvls");
  spec.nccl_version = "2.27";
  EXPECT_EQ(algorithm(), "ring");
  spec.cta_policy = CtaPolicy::kEfficiency;
  EXPECT_EQ(algorithm(), "nvls");
}

// NCCL's user guide: SHARP with registered buffers and one rank per node needs one SM.
TEST(Occupancy, Sharp) {
  CollectiveModelSpec spec = Nccl("2.27");
  spec.collnet = spec.registered_buffers = true;
  spec.algorithm = "collnet_chain";
  EXPECT_EQ(Cost(DgxH100(), Nodes(8, 1), spec).sms, 1);
}

TEST(Occupancy, CopyEnginesHoldNothing) {
  CollectiveModelSpec spec = Nccl("2.28");
  spec.cta_policy = CtaPolicy::kZero;
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kAllToAll}) {
    const CollectiveCost cost = Cost(DgxH100(), Nodes(1), spec, kGiB, op);
    EXPECT_EQ(cost.algorithm, "copy_engine");
    EXPECT_EQ(cost.sms, 0);
  }
  // They cannot add, and they do not cross the network.
  EXPECT_GT(Cost(DgxH100(), Nodes(1), spec).sms, 0);
  EXPECT_GT(Cost(DgxH100(), Nodes(2), spec, kGiB, CollectiveOp::kAllGather).sms, 0);
}

// A channel carries at least 32 KiB of traffic, a thread 8 bytes of LL for each rank.
TEST(Occupancy, SmallCallsUseFewChannels) {
  CollectiveModelSpec spec = Nccl("2.27");
  spec.algorithm = "ring";
  spec.protocol = "ll";
  EXPECT_EQ(Cost(DgxA100(), Nodes(1), spec, 8).channels, 1);
  EXPECT_EQ(Cost(DgxA100(), Nodes(1), spec, 512 * 8 * 8 * 5).channels, 5);
  EXPECT_EQ(Cost(DgxA100(), Nodes(1), spec, 64 * kMiB).channels, 24);
  spec.protocol = "simple";
  EXPECT_EQ(Cost(DgxA100(), Nodes(1), spec, 512 * 64 * 3).channels, 3);
}

TEST(Occupancy, LimitsOfTheJob) {
  CollectiveModelSpec spec = Nccl("2.27");
  spec.algorithm = "ring";
  spec.protocol = "simple";
  const CollectiveCost full = Cost(DgxA100(), Nodes(1), spec, 8 * kGiB);
  spec.max_ctas = 8;
  const CollectiveCost limited = Cost(DgxA100(), Nodes(1), spec, 8 * kGiB);
  EXPECT_EQ(limited.sms, 8);
  EXPECT_NEAR(limited.seconds / full.seconds, 3, 0.01);  // a third of the channels
  EXPECT_EQ(limited.nccl_seconds, full.nccl_seconds);    // the table does not know
}

// Bytes through HBM for one byte on the bus: 3, or 2 from registered buffers; LL doubles the bytes.
TEST(Occupancy, MemoryTraffic) {
  CollectiveModelSpec spec = Nccl("2.27");
  spec.algorithm = "ring";
  spec.protocol = "simple";
  const double bus_bytes = 1.75 * static_cast<double>(kGiB);
  EXPECT_DOUBLE_EQ(Cost(DgxH100(), Nodes(1), spec).hbm_bytes, 3 * bus_bytes);
  spec.protocol = "ll";
  EXPECT_DOUBLE_EQ(Cost(DgxH100(), Nodes(1), spec).hbm_bytes, 6 * bus_bytes);
  spec.protocol = "ll128";
  EXPECT_DOUBLE_EQ(Cost(DgxH100(), Nodes(1), spec).hbm_bytes, 3.2 * bus_bytes);
  spec.protocol = "simple";
  spec.registered_buffers = true;
  EXPECT_DOUBLE_EQ(Cost(DgxH100(), Nodes(1), spec).hbm_bytes, 2 * bus_bytes);
  spec.registered_buffers = false;
  spec.algorithm = "nvls";
  EXPECT_DOUBLE_EQ(Cost(DgxH100(), Nodes(1), spec).hbm_bytes, 2 * bus_bytes);
}

TEST(Occupancy, ShareOfTheLinks) {
  CollectiveModelSpec spec = Nccl("2.27");
  spec.algorithm = "ring";
  const CollectiveCost inside = Cost(DgxA100(), Nodes(1), spec, 64 * kGiB);
  EXPECT_NEAR(inside.intra_share, 1, 0.01);  // the slowest link is busy all the time
  EXPECT_EQ(inside.network_share, 0);
  const CollectiveCost across = Cost(DgxA100(), Nodes(2), spec, 64 * kGiB);
  EXPECT_NEAR(across.network_share, 1, 0.01);
  EXPECT_NEAR(across.intra_share, 200.0 / 300, 0.01);
  EXPECT_EQ(Cost(DgxA100(), Nodes(4, 1), spec).intra_share, 0);
}

// ---- Symmetric kernels ----

// NCCL's own model of them (sym_kernels.cc of v2.30.7), worked out for two thread blocks of
// multicast stores; measured kernel times are 10.9, 27.4, 95.3 and 363 us (Megatron-LM PR #5596).
TEST(Symmetric, AllGatherOnEightH100) {
  CollectiveModelSpec spec = Nccl("2.30");
  spec.symmetric_memory = true;
  const double expected_us[] = {12.3, 28.8, 94.6, 358};
  const double measured_us[] = {10.9, 27.4, 95.3, 363};
  const std::int64_t sizes[] = {2 * kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB};
  for (int i = 0; i < 4; ++i) {
    const CollectiveCost cost = Cost(DgxH100(), Nodes(1), spec, sizes[i], CollectiveOp::kAllGather);
    EXPECT_EQ(cost.algorithm, "symmetric");
    EXPECT_EQ(cost.sms, 2);
    EXPECT_NEAR(cost.seconds * 1e6, expected_us[i], i == 3 ? 0.5 : 0.05);
    EXPECT_NEAR(cost.seconds * 1e6, measured_us[i], 0.14 * measured_us[i]);
  }
}

TEST(Symmetric, SmallCallsUseLl) {
  CollectiveModelSpec spec = Nccl("2.30");
  spec.symmetric_memory = true;
  const CollectiveCost cost = Cost(DgxH100(), Nodes(1), spec, 1024);
  EXPECT_EQ(cost.protocol, "ll");
  EXPECT_NEAR(cost.seconds * 1e6, 5, 0.5);  // base latency 4.5 us
}

TEST(Symmetric, NeedsItsReleaseAndOneNode) {
  CollectiveModelSpec spec = Nccl("2.26");
  spec.symmetric_memory = true;
  EXPECT_NE(Cost(DgxH100(), Nodes(1), spec).algorithm, "symmetric");
  spec.nccl_version = "2.27";
  EXPECT_EQ(Cost(DgxH100(), Nodes(1), spec).algorithm, "symmetric");
  EXPECT_NE(Cost(DgxH100(), Nodes(2), spec).algorithm, "symmetric");
  EXPECT_NE(Cost(DgxA100(), Nodes(1), spec).algorithm, "symmetric");
  spec.algorithm = "ring";  // the job wants something else
  EXPECT_EQ(Cost(DgxH100(), Nodes(1), spec).algorithm, "ring");
}

}  // namespace
}  // namespace stepsim
