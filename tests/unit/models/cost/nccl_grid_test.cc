// Every collective on every kind of machine: times and occupancies that make sense, whatever NCCL
// takes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/cost/collective_cost.h"
#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

struct Machine {
  std::string name;
  HardwareSpec hardware;
};

HardwareSpec Box(double compute_capability, double pcie_gb, double nic_gbit, std::string network) {
  HardwareSpec box = NvlinkMachine(compute_capability, pcie_gb, nic_gbit, "amd", 1);
  box.intra_node.type = "pcie";
  box.switched = false;
  box.network.link.type = std::move(network);
  return box;
}

std::vector<Machine> Machines() {
  HardwareSpec rack = NvlinkMachine(10.0, 900, 400, "arm", 72);
  rack.gpus_per_node = 72;
  return {{"dgx1", Dgx1()},
          {"a100", DgxA100()},
          {"h100", DgxH100()},
          {"b200", DgxB200()},
          {"rack", rack},
          {"one slow port", NvlinkMachine(9.0, 450, 1, "intel", 1)},
          {"pcie, sockets", Box(8.9, 32, 10, "ethernet")},
          {"pcie, slow as a modem", Box(7.5, 0.001, 0.001, "ethernet")}};
}

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                                 CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
                                 CollectiveOp::kBroadcast,     CollectiveOp::kReduce,
                                 CollectiveOp::kSendRecv};

void ExpectSane(const CollectiveCost& cost, const HardwareSpec& hardware, std::int64_t bytes) {
  EXPECT_TRUE(std::isfinite(cost.seconds));
  EXPECT_TRUE(std::isfinite(cost.nccl_seconds));
  EXPECT_GT(cost.seconds, 0);
  EXPECT_GT(cost.nccl_seconds, 0);
  EXPECT_GE(cost.channels, 0);
  EXPECT_LE(cost.channels, 96);
  EXPECT_LE(cost.sms, static_cast<double>(hardware.gpu.sms));
  EXPECT_GE(cost.hbm_bytes, bytes > 0 ? 1 : 0);
  EXPECT_TRUE(cost.intra_share >= 0 && cost.intra_share <= 1) << cost.intra_share;
  EXPECT_TRUE(cost.network_share >= 0 && cost.network_share <= 1) << cost.network_share;
  EXPECT_FALSE(cost.algorithm.empty());
}

void ExpectSaneOn(const Machine& machine, const CollectiveModelSpec& spec) {
  HardwareSpec hardware = machine.hardware;
  hardware.gpu.sms = 132;
  const CollectivePricer price(hardware, spec);
  for (const std::int64_t nodes : {1, 2, 3, 1000}) {
    for (const std::int64_t local : {1, 2, 5, 8, 72}) {
      if (local > hardware.gpus_per_node || nodes * local == 1) continue;
      for (const CollectiveOp op : kOps) {
        for (std::int64_t bytes = 0; bytes < 1'000'000'000'000; bytes = 1 + bytes * 999) {
          SCOPED_TRACE(fmt::format("{} {} x {}, {} {} bytes", machine.name, nodes, local,
                                   ToString(op), bytes));
          Placement placement = Nodes(nodes, local);
          placement.job_gpus_per_node = hardware.gpus_per_node;
          ExpectSane(price({op, Bytes{bytes}, DType::kBf16, placement}), hardware, bytes);
        }
      }
    }
  }
}

TEST(NcclGrid, EveryReleaseOnEveryMachine) {
  for (const Machine& machine : Machines()) {
    for (const char* version : {"2.12", "2.18", "2.19", "2.21", "2.23", "2.25", "2.28", "2.30"}) {
      CollectiveModelSpec spec = Nccl(version);
      ExpectSaneOn(machine, spec);
    }
  }
}

TEST(NcclGrid, EveryKindOfBuffer) {
  for (const Machine& machine : Machines()) {
    CollectiveModelSpec spec = Nccl("2.30");
    spec.registered_buffers = spec.collnet = true;
    ExpectSaneOn(machine, spec);
    spec.symmetric_memory = true;
    ExpectSaneOn(machine, spec);
    spec.cta_policy = CtaPolicy::kZero;
    spec.min_ctas = spec.max_ctas = 1;
    ExpectSaneOn(machine, spec);
  }
}

// Twice the bytes take at most about twice the time, and hardly ever less than before: where NCCL
// changes its mind too late or too early, the time may drop, never to less than half.
TEST(NcclGrid, MoreBytesTakeLonger) {
  const CollectiveModelSpec spec = Nccl();
  for (const Machine& machine : Machines()) {
    const CollectivePricer price(machine.hardware, spec);
    for (const CollectiveOp op : kOps) {
      for (const std::int64_t nodes : {1, 2, 16}) {
        double last = 0;
        for (std::int64_t bytes = 8; bytes < 1'000'000'000'000; bytes *= 2) {
          SCOPED_TRACE(
              fmt::format("{} on {} nodes, {} {} bytes", machine.name, nodes, ToString(op), bytes));
          const double seconds = price({op, Bytes{bytes}, DType::kBf16, Nodes(nodes)}).seconds;
          EXPECT_GT(seconds, 0.5 * last);
          if (last > 0) {
            EXPECT_LT(seconds, 3.5 * last);
          }
          last = seconds;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepsim
