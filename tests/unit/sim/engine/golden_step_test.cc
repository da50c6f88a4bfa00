// The step times of a synthetic data-parallel step on which independent engines agree to the
// microsecond: plain C++ loops, SimGrid (actors and activity graphs), ASTRA-sim in replay mode, a
// heapq script, SimPy and networkx.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/engine/simulate.h"
#include "sim/metrics/accounting.h"
#include "tests/support/sketch.h"
#include "tests/support/workloads.h"

namespace stepsim {
namespace {

using std::chrono::microseconds;

struct Golden {
  int ranks;
  int layers;
  std::int64_t step_us;
};

std::string NameOf(const testing::TestParamInfo<Golden>& info) {
  return std::to_string(info.param.ranks) + "x" + std::to_string(info.param.layers);
}

class GoldenStepTest : public testing::TestWithParam<Golden> {};

TEST_P(GoldenStepTest, StepTimeIsTheAgreedOne) {
  const auto [ranks, layers, step_us] = GetParam();
  const TaskGraph graph = BuildStep({.ranks = ranks, .layers = layers});
  EXPECT_EQ(graph.task_count(), static_cast<std::size_t>(38 * ranks * layers));
  const Timeline timeline = Simulate(graph, CostsFromTags(graph));
  EXPECT_EQ(timeline.makespan - kStepBegin, microseconds(step_us));
}

INSTANTIATE_TEST_SUITE_P(Step, GoldenStepTest,
                         testing::Values(Golden{1, 96, 140'832}, Golden{8, 24, 36'017},
                                         Golden{8, 96, 141'281}, Golden{8, 384, 563'328},
                                         Golden{28, 96, 141'395}, Golden{64, 24, 36'188},
                                         Golden{64, 96, 141'452}, Golden{274, 96, 157'539},
                                         Golden{512, 96, 180'579}, Golden{1024, 96, 229'827}),
                         NameOf);

// 8 ranks: 7 us of latency, 2 x 7/8 x 26,214,400 / 50,000 = 917.504 us of transfer.
TEST(StepTest, AnAllReduceLastsWholeMicroseconds) {
  EXPECT_EQ(AllReduceMicroseconds(1), 0);
  EXPECT_EQ(AllReduceMicroseconds(2), 1 + 524);
  EXPECT_EQ(AllReduceMicroseconds(8), 7 + 917);
}

// One rank reduces nothing: the step is its kernels, 240 + 960 + 5 us a layer.
TEST(StepLayerTest, OnOneRankIsTheSumOfItsKernels) {
  const TaskGraph graph = BuildStepLayer({.ranks = 1, .layers = 10});
  EXPECT_EQ(graph.task_count(), 40u);
  EXPECT_EQ(Simulate(graph, CostsFromTags(graph)).makespan - kStepBegin, microseconds(12'050));
}

// On 8 ranks a reduction (924 us) is shorter than a layer's backward (960 us), so only the last one
// is exposed, and of it the part that the other layers' optimizer kernels do not cover.
TEST(StepLayerTest, ExposesTheLastAllReduce) {
  const TaskGraph graph = BuildStepLayer({.ranks = 8, .layers = 10});
  const TaskCosts costs = CostsFromTags(graph);
  const Timeline timeline = Simulate(graph, costs);
  EXPECT_EQ(timeline.makespan - kStepBegin, microseconds(10 * 1200 + 924 + 5));
  for (const RankActivity& rank : ObserveRanks(graph, timeline)) {
    const RankAccount account =
        AccountWindow(graph, costs, timeline, rank, {kStepBegin, timeline.makespan});
    EXPECT_EQ(account.compute, microseconds(10 * 1205));
    EXPECT_EQ(account.exposed_total(), microseconds(924 - 9 * 5));
    EXPECT_EQ(account.communication, microseconds(10 * 924));
    EXPECT_EQ(account.profiler_exposed, account.exposed_total());
  }
}

}  // namespace
}  // namespace stepsim
