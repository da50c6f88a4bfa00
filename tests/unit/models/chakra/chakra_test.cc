#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/chakra/chakra_graph.h"
#include "models/chakra/chakra_trace.h"
#include "models/cost/graph_cost.h"
#include "sim/base/diagnostics.h"
#include "sim/engine/simulate.h"
#include "tests/support/chakra_bytes.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kSend = 5, kReceive = 6, kCollective = 7;

// 1 GB/s and 10 us a hop between ranks; 1 TFLOP/s, 100 GB/s, no latency.
ClusterSpec Machine(std::int64_t ranks) {
  ClusterSpec cluster;
  cluster.gpus_per_node = ranks;
  cluster.hardware.gpus_per_node = ranks;
  cluster.hardware.gpu.peak.bf16 = FlopRate{1e12};
  cluster.hardware.gpu.hbm_bandwidth = Bandwidth{100e9};
  cluster.hardware.gpu.gemm_efficiency = cluster.hardware.gpu.memory_efficiency = 1;
  cluster.hardware.gpu.kernel_latency = Duration{};
  cluster.hardware.intra_node.bandwidth = Bandwidth{1e9};
  cluster.hardware.intra_node.latency = Duration{10'000'000};
  cluster.collectives.model = CollectiveModel::kAlphaBeta;
  return cluster;
}

double StepMicroseconds(const std::vector<std::string>& files, const ClusterSpec& machine,
                        const ChakraOptions& options = {}) {
  std::vector<ChakraTrace> traces;
  for (const std::string& bytes : files) traces.push_back(ReadChakra(bytes, "t.et"));
  const ChakraStep step = BuildChakraStep(traces, machine, options);
  const GraphCosts priced = PriceGraph(step.graph, step.job);
  return ToSeconds(Simulate(step.graph, priced.costs).makespan - SimTime{}) * 1e6;
}

std::string ErrorOf(const std::string& bytes) {
  try {
    ReadChakra(bytes, "t.et");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string AllReduce(std::uint64_t id, std::vector<std::uint64_t> after, std::uint64_t bytes) {
  return Node({.id = id,
               .type = kCollective,
               .after = std::move(after),
               .attributes = Int64("comm_type", 0) + Int64("comm_size", bytes)});
}

TEST(Chakra, ReadsNodes) {
  const std::string file =
      Header() +
      Node({.id = 7,
            .after = {},
            .duration_us = 12,
            .attributes = Int64("num_ops", 1000) + Int64("tensor_size", 64) +
                          Bool("is_cpu_op", true) + Text("pg_name", "2"),
            .name = "mm"}) +
      Node({.id = 9, .type = kSend, .after = {7}, .attributes = Int64("comm_dst", 3)});
  const ChakraTrace trace = ReadChakra(file, "t.et");
  EXPECT_EQ(trace.version, "0.0.4");
  ASSERT_EQ(trace.nodes.size(), 2u);
  const ChakraNode& node = trace.nodes[0];
  EXPECT_EQ(node.id, 7u);
  EXPECT_EQ(node.name, "mm");
  EXPECT_EQ(node.kind, ChakraKind::kCompute);
  EXPECT_EQ(node.duration_us, 12u);
  EXPECT_EQ(node.flops, 1000);
  EXPECT_EQ(node.bytes, 64);
  EXPECT_TRUE(node.is_host);
  EXPECT_EQ(node.group, "2");
  EXPECT_THAT(trace.nodes[1].after, ElementsAre(7u));
  EXPECT_EQ(trace.nodes[1].peer, 3);
}

// Cut off anywhere, it is an error, but between two nodes.
TEST(Chakra, ATruncatedFileIsNamed) {
  const std::string first = Header() + Node({.id = 1, .duration_us = 300});
  const std::string file = first + Node({.id = 2, .after = {1}, .duration_us = 300});
  for (std::size_t size = 0; size < file.size(); ++size) {
    if (size == first.size()) continue;
    EXPECT_THAT(ErrorOf(file.substr(0, size)), HasSubstr("allowed: a Chakra execution trace"))
        << size;
  }
  EXPECT_EQ(ErrorOf(first), "");
}

TEST(Chakra, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf("{\"traceEvents\": []}"), HasSubstr("byte 0: found a message of 123 bytes"));
  EXPECT_THAT(ErrorOf(std::string(12, '\xff')), HasSubstr("found a length beyond 2^31"));
  EXPECT_THAT(ErrorOf(Header() + Node({.id = 1}) + Node({.id = 1})),
              HasSubstr("node 1: found twice"));
  EXPECT_THAT(ErrorOf(Header() + Node({.id = 1, .after = {5}})),
              HasSubstr("node 1: depends on node 5"));
  EXPECT_THAT(ErrorOf(Header() + Node({.id = 1, .type = 99})), HasSubstr("found node type 99"));
  EXPECT_THAT(ErrorOf(Header() + Node({.id = 1, .attributes = Text("num_ops", "many")})),
              HasSubstr("num_ops: found no number"));
  EXPECT_THAT(ErrorOf(Header() + Node({.id = 1, .duration_us = 1'000'000'000'000})),
              HasSubstr("more than a day"));
}

// 100 us, then a ring over 2 ranks: 2 hops of 10 us, and 2 x half of 1 MB at 1 GB/s.
TEST(Chakra, RanksMeetInCollectives) {
  const std::string file =
      Header() + Node({.id = 1, .duration_us = 100}) + AllReduce(2, {1}, 1'000'000);
  EXPECT_NEAR(StepMicroseconds({file, file}, Machine(2)), 100 + 20 + 1000, 1e-3);
  // A rank that is late keeps the other waiting.
  const std::string late =
      Header() + Node({.id = 1, .duration_us = 500}) + AllReduce(2, {1}, 1'000'000);
  EXPECT_NEAR(StepMicroseconds({file, late}, Machine(2)), 500 + 20 + 1000, 1e-3);
}

// The transfer runs beside what does not depend on it.
TEST(Chakra, IndependentNodesOverlap) {
  const std::string file = Header() + Node({.id = 1, .duration_us = 100}) +
                           AllReduce(2, {1}, 1'000'000) +
                           Node({.id = 3, .after = {1}, .duration_us = 700});
  EXPECT_NEAR(StepMicroseconds({file, file}, Machine(2)), 100 + 1020, 1e-3);
}

// An all_gather of two halves: comm_size is a rank's half; one hop, one half at 1 GB/s.
TEST(Chakra, AnAllGatherCountsWhatARankPutsIn) {
  const std::string file =
      Header() + Node({.id = 1,
                       .type = kCollective,
                       .attributes = Int64("comm_type", 2) + Int64("comm_size", 500'000)});
  EXPECT_NEAR(StepMicroseconds({file, file}, Machine(2)), 10 + 500, 1e-3);
}

// 10 us and 1 MB at 1 GB/s, then the receiver's 50 us.
TEST(Chakra, SendsMeetReceives) {
  const std::string size = Int64("comm_size", 1'000'000);
  const std::string sender =
      Header() + Node({.id = 1, .type = kSend, .attributes = size + Int64("comm_dst", 1)});
  const std::string receiver =
      Header() + Node({.id = 1, .type = kReceive, .attributes = size + Int64("comm_src", 0)}) +
      Node({.id = 2, .after = {1}, .duration_us = 50});
  EXPECT_NEAR(StepMicroseconds({sender, receiver}, Machine(2)), 10 + 1000 + 50, 1e-3);
}

// 1e9 FLOPs at 1 TFLOP/s are 1000 us, whatever was recorded elsewhere.
TEST(Chakra, KernelsCanBePricedAnew) {
  const std::string file =
      Header() + Node({.id = 1, .duration_us = 70, .attributes = Int64("num_ops", 1'000'000'000)});
  EXPECT_NEAR(StepMicroseconds({file}, Machine(1)), 70, 1e-3);
  ChakraOptions model;
  model.keeps_durations = false;
  EXPECT_NEAR(StepMicroseconds({file}, Machine(1), model), 1000, 1e-3);
}

// One trace of four ranks: the ring is of four, (6 hops, 6 x a quarter).
TEST(Chakra, ATraceMayStandForOthers) {
  const std::string file = Header() + AllReduce(1, {}, 1'000'000);
  EXPECT_NEAR(StepMicroseconds({file}, Machine(4)), 60 + 1500, 1e-3);
  ChakraOptions pairs;
  pairs.groups = ReadChakraGroups(R"({"": [0, 1]})", "g.json");
  EXPECT_NEAR(StepMicroseconds({file}, Machine(4), pairs), 20 + 1000, 1e-3);
}

TEST(Chakra, RefusesWhatCannotRun) {
  const auto error = [](const std::vector<std::string>& files) -> std::string {
    try {
      StepMicroseconds(files, Machine(2));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error({Header() + Node({.id = 1, .after = {2}}) + Node({.id = 2, .after = {1}})}),
              HasSubstr("waits for itself"));
  EXPECT_THAT(error({Header() + AllReduce(1, {}, 8), Header() + AllReduce(1, {}, 16)}),
              HasSubstr("call 1 of group all is all_reduce of 16 B here, but all_reduce of 8 B"));
  EXPECT_THAT(
      error({Header() + Node({.id = 1, .type = kCollective, .attributes = Int64("comm_type", 3)})}),
      HasSubstr("found comm_type GATHER, allowed: 0 (ALL_REDUCE)"));
  EXPECT_THAT(
      error({Header() + Node({.id = 1, .type = kSend, .attributes = Int64("comm_dst", 5)})}),
      HasSubstr("found peer 5, allowed: another rank below 2"));
  const std::string one = Header() + AllReduce(1, {}, 8);
  EXPECT_THAT(error({one, one, one}), HasSubstr("found traces of 3 ranks"));
}

TEST(Chakra, GroupsAreLists) {
  EXPECT_THAT(ReadChakraGroups(R"({"1": [2, 0]})", "g.json").at("1"), ElementsAre(0, 2));
  for (const char* text :
       {"[]", R"({"1": 3})", R"({"1": [0, 0]})", R"({"1": [-1]})", R"({"1": []})"}) {
    EXPECT_THROW(ReadChakraGroups(text, "g.json"), ConfigError) << text;
  }
}

}  // namespace
}  // namespace stepsim
