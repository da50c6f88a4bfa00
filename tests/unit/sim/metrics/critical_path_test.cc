// The critical path by hand: which tasks set the pace of a step follows from the durations.
#include "sim/metrics/critical_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;
using ::testing::ElementsAre;

TaskId Kernel(GraphSketch& sketch, Phase phase, Duration d, const GraphSketch::Tasks& after = {}) {
  const StreamId stream = sketch.Stream(0, "compute");
  return sketch.Add(TaskKind::kCompute, {&stream, 1}, d, {.name = "k", .phase = phase}, after);
}

Window Whole(const Timeline& timeline) { return {kStepBegin, timeline.makespan}; }

Duration SumOf(const std::vector<PathRun>& runs) {
  Duration sum{};
  for (const PathRun& run : runs) sum += run.length();
  return sum;
}

// compute  | F 4 | B 10      |          | O 3 |     the first reduction is hidden, the second one
// nccl           | r0 5 |    | r1 7     |           makes the optimizer wait.
class CriticalPath : public ::testing::Test {
 protected:
  CriticalPath() {
    GraphSketch s;
    const TaskId f = Kernel(s, Phase::kForward, 4us);
    const StreamId nccl = s.Stream(0, "nccl");
    s.Transfer(nccl, 5us, Site::kGradientReduce, "r0", {f});
    const TaskId b = Kernel(s, Phase::kBackward, 10us);
    const TaskId r1 = s.Transfer(nccl, 7us, Site::kGradientReduce, "r1", {b});
    Kernel(s, Phase::kOptimizer, 3us, {r1});
    built_ = s.Build();
    timeline_ = Simulate(built_.graph, built_.costs);
  }
  std::vector<PathRun> Runs(Window window) const {
    return CondensePath(built_.graph, StepPath(built_.graph, timeline_, window));
  }
  static std::vector<std::string> Names(const std::vector<PathRun>& runs) {
    std::vector<std::string> names;
    for (const PathRun& run : runs) names.push_back(NameOf(run));
    return names;
  }

  Sketched built_;
  Timeline timeline_;
};

TEST_F(CriticalPath, IsWhatTheStepWaitedFor) {
  const std::vector<PathRun> runs = Runs(Whole(timeline_));
  EXPECT_THAT(Names(runs), ElementsAre("compute forward", "compute backward", "gradient_reduce",
                                       "compute optimizer"));
  EXPECT_EQ(runs[1].length(), 10us);
  EXPECT_EQ(runs[2].length(), 7us);
  EXPECT_EQ(SumOf(runs), 24us);
}

// Only what lies in the window counts: half of the backward kernel is before it.
TEST_F(CriticalPath, IsCutToTheWindow) {
  const std::vector<PathRun> runs = Runs({kStepBegin + 9us, timeline_.makespan});
  EXPECT_THAT(Names(runs), ElementsAre("compute backward", "gradient_reduce", "compute optimizer"));
  EXPECT_EQ(runs[0].length(), 5us);
  EXPECT_EQ(SumOf(runs), 15us);
}

TEST(CriticalPathShares, PutRunsOfOneKindTogether) {
  GraphSketch s;
  const StreamId nccl = s.Stream(0, "nccl");
  TaskId last = Kernel(s, Phase::kForward, 2us);
  for (int i = 0; i < 3; ++i) {
    const TaskId t = s.Transfer(nccl, 5us, Site::kTensorParallel, "t", {last});
    last = Kernel(s, Phase::kForward, 1us, {t});
    last = Kernel(s, Phase::kForward, 1us);
  }
  const Sketched built = s.Build();
  const Timeline timeline = Simulate(built.graph, built.costs);
  const auto shares =
      SharesOf(CondensePath(built.graph, StepPath(built.graph, timeline, Whole(timeline))));
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].name, "tensor_parallel");
  EXPECT_EQ(shares[0].length, 15us);
  EXPECT_EQ(shares[0].runs, 3u);
  EXPECT_EQ(shares[1].length, 8us);
  EXPECT_EQ(shares[1].runs, 4u);
  EXPECT_EQ(shares[1].pieces, 7u);
}

TEST(CriticalPathOfNothing, IsEmpty) {
  const Sketched built = GraphSketch().Build();
  const Timeline timeline = Simulate(built.graph, built.costs);
  EXPECT_TRUE(StepPath(built.graph, timeline, Whole(timeline)).empty());
}

}  // namespace
}  // namespace stepsim
