// Copies out of a peer's memory and barriers, against the equations of models/README.md, "Async
// tensor parallel".
#include "models/cost/symmetric_memory_cost.h"

#include <gtest/gtest.h>

#include "models/cost/graph_cost.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {
namespace {

HardwareSpec Machine() {
  HardwareSpec hardware;
  hardware.gpu.kernel_latency = DurationFromSeconds(3e-6);
  hardware.intra_node.bandwidth = {400e9};
  hardware.intra_node.efficiency = 0.75;
  hardware.intra_node.latency = DurationFromSeconds(2e-6);
  return hardware;
}

// 5 us and 300 MB over 300 GB/s.
TEST(SymmetricMemory, ACopyTakesItsBytesOverTheLinkAndNoSms) {
  const CollectiveCost cost =
      PriceSymmetric(CollectiveOp::kPeerCopy, Bytes{300'000'000}, Machine());
  EXPECT_NEAR(cost.seconds, 5e-6 + 1e-3, 1e-12);
  EXPECT_EQ(cost.sms, 0);
  EXPECT_EQ(cost.intra_share, 1);
  EXPECT_EQ(cost.hbm_bytes, 600'000'000);
}

TEST(SymmetricMemory, ABarrierIsAKernelAndAWayOverTheLink) {
  const CollectiveCost cost = PriceSymmetric(CollectiveOp::kBarrier, Bytes{4}, Machine());
  EXPECT_NEAR(cost.seconds, 5e-6, 1e-12);
  EXPECT_EQ(cost.intra_share, 0);
}

// A kernel that states its SMs holds those, whatever the library would take.
TEST(SymmetricMemory, StatedSmsAreHeld) {
  TaskGraphBuilder builder;
  const RankId rank = builder.AddRank({});
  const StreamId stream = builder.AddStream(rank, "s");
  const GroupId group = builder.AddGroup({"tp", "", {0, 1, 2, 3}});
  const LabelId label = builder.AddLabel({"x", Site::kTensorParallel, Phase::kForward});
  for (const std::int32_t sms : {0, 1}) {
    builder.AddTask(builder.AddWork(CollectiveWork{CollectiveOp::kPeerCopy, DType::kBf16,
                                                   Bytes{1 << 20}, group, sms}),
                    label, stream);
  }
  JobSpec job;
  job.hardware = Machine();
  job.gpus_per_node = 4;
  const TaskGraph graph = std::move(builder).Build();
  const GraphCosts costs = PriceGraph(graph, job);
  EXPECT_EQ(costs.occupancy[WorkId{0}].sms, 0);
  EXPECT_EQ(costs.occupancy[WorkId{1}].sms, 1);
  EXPECT_EQ(costs.costs[WorkId{0}].isolated, costs.costs[WorkId{1}].isolated);
}

}  // namespace
}  // namespace stepsim
