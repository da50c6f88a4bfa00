// NCCL 2.30's own predictions: latency in us and algorithm bandwidth in GB/s of every algorithm and
// protocol on nine systems, as its tuner prints them (src/graph/tuning.cc of v2.30.7, with channels
// of the graph search as in models/README.md's table). Printed with three digits; the tolerance is
// half of the last one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/cost/nccl_model.h"
#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

struct Golden {
  double latency;
  double bandwidth;
  double latency_step;  // of the last printed digit
  double bandwidth_step;
};

// "15.2/14.5", or "-": not enabled.
struct GoldenRow {
  std::string system;
  HardwareSpec hardware;
  std::int64_t nodes;
  std::vector<std::string> cells;
};

double Step(const std::string& number) {
  const std::size_t dot = number.find('.');
  return dot == std::string::npos ? 1 : std::pow(0.1, number.size() - dot - 1);
}

Golden Parse(const std::string& cell) {
  const std::size_t slash = cell.find('/');
  const std::string latency = cell.substr(0, slash);
  const std::string bandwidth = cell.substr(slash + 1);
  return {std::stod(latency), std::stod(bandwidth), Step(latency), Step(bandwidth)};
}

void ExpectPrediction(const GoldenRow& row, CollectiveOp op, NcclAlgorithm algorithm,
                      NcclProtocol protocol, const std::string& cell) {
  const NcclTable& table = NcclTableFor("2.30");
  const NcclSystem system = SearchSystem(row.hardware, Nodes(row.nodes), table);
  const NcclCall call{op, protocol, system, table};
  const NcclAlgorithmRow& model = RowOf(algorithm);
  SCOPED_TRACE(row.system + " " + std::string(model.name) + " " + std::string(NameOf(protocol)));
  const std::string_view refusal = model.refusal(call, {});
  if (cell == "-") {
    EXPECT_NE(refusal, "");
    return;
  }
  EXPECT_EQ(refusal, "");
  const Golden golden = Parse(cell);
  const NcclPrediction p = model.predict(call);
  EXPECT_NEAR(p.latency_us, golden.latency, golden.latency_step * 0.501);
  EXPECT_NEAR(p.bandwidth, golden.bandwidth, golden.bandwidth_step * 0.501);
}

TEST(NcclGolden, AllReduce) {
  using A = NcclAlgorithm;
  using P = NcclProtocol;
  // Columns: Tree LL, LL128, Simple; Ring LL, LL128, Simple; NVLS on one node, else NVLSTree.
  const std::vector<GoldenRow> rows = {
      {"8 V100",
       Dgx1(),
       1,
       {"15.2/14.5", "31.5/42.9", "64.4/55.2", "15.0/22.3", "40.6/63.1", "56.0/68.6", "-"}},
      {"8 A100",
       DgxA100(),
       1,
       {"15.2/29.1", "31.5/85.9", "64.4/110.4", "15.0/50.1", "40.6/126.2", "56.0/137.1", "-"}},
      {"8 H100",
       DgxH100(),
       1,
       {"15.2/43.6", "31.5/128.8", "64.4/165.6", "15.0/80.6", "40.6/189.3", "56.0/205.7",
        "25.0/272.0"}},
      {"8 B200",
       DgxB200(),
       1,
       {"15.2/87.2", "31.5/257.6", "64.4/331.2", "15.0/161.1", "40.6/365.7", "56.0/411.4",
        "25.0/411.4"}},
      {"2x8 A100",
       DgxA100(),
       2,
       {"25.2/11.2", "48.5/80.0", "92.4/94.4", "68.0/12.0", "78.0/85.3", "204.4/102.4", "-"}},
      {"2x8 H100",
       DgxH100(),
       2,
       {"25.2/19.5", "48.5/146.8", "92.4/165.6", "40.0/20.8", "75.2/156.6", "131.6/192.0",
        "66.8/246.2"}},
      {"16x8 H100",
       DgxH100(),
       16,
       {"55.2/10.2", "99.5/116", "176.4/144", "311.6/10.3", "559.6/148", "1190/181.4",
        "192.2/183.4"}},
      {"128x8 H100",
       DgxH100(),
       128,
       {"85.2/10.2", "150.5/116", "260.4/144", "2484/10.2", "4435/146.9", "9657/180.2",
        "317.6/182.2"}},
      {"2x8 B200",
       DgxB200(),
       2,
       {"25.2/19.5", "48.5/126.7", "92.4/171.2", "40.0/20.8", "75.2/170.7", "131.6/204.8",
        "66.8/409.6"}},
  };
  for (const GoldenRow& row : rows) {
    const A in_switch = row.nodes == 1 ? A::kNvls : A::kNvlsTree;
    const std::vector<std::pair<A, P>> columns = {
        {A::kTree, P::kLl},    {A::kTree, P::kLl128},  {A::kTree, P::kSimple}, {A::kRing, P::kLl},
        {A::kRing, P::kLl128}, {A::kRing, P::kSimple}, {in_switch, P::kSimple}};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      ExpectPrediction(row, CollectiveOp::kAllReduce, columns[i].first, columns[i].second,
                       row.cells[i]);
    }
  }
}

TEST(NcclGolden, AllGatherAndReduceScatterByRing) {
  // The list has 378 for LL128 on 8 H100: 0.92 x 360 x 8/7 = 378.51, cut instead of rounded.
  const std::vector<GoldenRow> rows = {
      {"8 H100", DgxH100(), 1, {"10.8/161", "27.3/378.5", "32.2/411"}},
      {"2x8 H100", DgxH100(), 2, {"23.3/41.6", "44.6/313", "70/384"}},
      {"16x8 H100", DgxH100(), 16, {"159/20.6", "287/296", "599/363"}},
      {"128x8 H100", DgxH100(), 128, {"1246/20.4", "2224/294", "4833/360"}},
  };
  for (const GoldenRow& row : rows) {
    for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
      ExpectPrediction(row, op, NcclAlgorithm::kRing, NcclProtocol::kLl, row.cells[0]);
      ExpectPrediction(row, op, NcclAlgorithm::kRing, NcclProtocol::kLl128, row.cells[1]);
      ExpectPrediction(row, op, NcclAlgorithm::kRing, NcclProtocol::kSimple, row.cells[2]);
    }
  }
}

// Logged by the library on three nodes of eight H100 (NVIDIA/nccl issue #1453, NCCL_DEBUG_SUBSYS
// TUNING): "4096 Bytes -> Algo 0 proto 0 time 25.874907" and so on; algorithm 0 is the tree,
// protocols 0 and 1 are LL and LL128. The bandwidths in these times are those of four 400 Gb/s
// NICs.
TEST(NcclGolden, TreeOnThreeNodesWithHalfAsManyNics) {
  const HardwareSpec hardware = NvlinkMachine(9.0, 450, 400, "intel", 4);
  const NcclTable& table = NcclTableFor("2.21");
  const NcclSystem system = SearchSystem(hardware, Nodes(3), table);
  const auto time = [&](NcclProtocol protocol, double bytes) {
    const NcclCall call{CollectiveOp::kAllReduce, protocol, system, table};
    return Microseconds(CorrectedForSize(call, NcclAlgorithm::kTree, bytes,
                                         RowOf(NcclAlgorithm::kTree).predict(call)),
                        bytes);
  };
  EXPECT_NEAR(time(NcclProtocol::kLl, 4096), 25.874907, 1e-5);
  EXPECT_NEAR(time(NcclProtocol::kLl, 8192), 26.549810, 1e-5);
  EXPECT_NEAR(time(NcclProtocol::kLl, 65536), 37.798233, 1e-5);
  EXPECT_NEAR(time(NcclProtocol::kLl128, 131072), 51.603912, 1e-5);
}

}  // namespace
}  // namespace stepsim
