#include "sim/graph/graph_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;
using testing::ElementsAre;
using testing::Eq;
using testing::IsEmpty;
using testing::Optional;

std::optional<Duration> Longest(const TaskGraph& graph) {
  return LongestPath(graph, DurationsFromTags(graph));
}

TEST(LongestPathTest, OfNothingIsZero) {
  EXPECT_THAT(Longest(TaskGraphBuilder().Build()), Optional(Eq(Duration(0))));
}

TEST(LongestPathTest, RunsOverStreamsAndDependencies) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 3us);
  s.Compute(x, 4us);
  s.Compute(y, 5us);
  s.Compute(y, 6us, "after a", {a});
  EXPECT_THAT(Longest(s.Build().graph), Optional(Eq(Duration(11us))));  // 5 + 6 > 3 + 6
}

// Members wait for each other: 10 us until the late one arrives, 5 us of transfer, 1 us after it on
// the rank that was early.
TEST(LongestPathTest, MembersOfARendezvousEndTogether) {
  GraphSketch s;
  const StreamId early = s.Stream(0, "s"), late = s.Stream(1, "s");
  const TaskId a = s.Transfer(early, 5us, Site::kGradientReduce);
  s.Compute(early, 1us);
  s.Compute(late, 10us);
  const TaskId b = s.Transfer(late, 5us, Site::kGradientReduce);
  s.Meet({a, b});
  EXPECT_THAT(Longest(s.Build().graph), Optional(Eq(Duration(16us))));
}

TEST(LongestPathTest, ACircleHasNone) {
  GraphSketch s;
  const TaskId a = s.Compute(s.Stream(0, "x"), 1us);
  const TaskId b = s.Compute(s.Stream(0, "y"), 1us, "b", {a});
  s.builder().AddDependency(b, a);
  EXPECT_EQ(Longest(s.Build().graph), std::nullopt);
}

// Rank 0 meets for a before b, rank 1 for b before a: no dependency is circular, the meetings are.
TEST(LongestPathTest, MismatchedMeetingsAreACircle) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "s"), y = s.Stream(1, "s");
  const TaskId a0 = s.Transfer(x, 1us, Site::kGradientReduce);
  const TaskId b0 = s.Transfer(x, 1us, Site::kGradientReduce);
  const TaskId b1 = s.Transfer(y, 1us, Site::kGradientReduce);
  const TaskId a1 = s.Transfer(y, 1us, Site::kGradientReduce);
  s.Meet({a0, a1});
  s.Meet({b0, b1});
  const Sketched built = s.Build();
  EXPECT_EQ(Longest(built.graph), std::nullopt);
  EXPECT_THAT(TopologicalOrder(built.graph), IsEmpty());
}

TEST(TopologicalOrderTest, HoldsEveryTaskAfterItsPredecessors) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 1us), b = s.Compute(x, 1us);
  const TaskId c = s.Compute(y, 1us, "c", {b}), d = s.Compute(y, 1us);
  s.builder().AddDependency(d, s.Compute(s.Stream(0, "z"), 1us));
  const std::vector<TaskId> order = TopologicalOrder(s.Build().graph);
  EXPECT_THAT(order, ElementsAre(a, b, c, d, TaskId{4}));  // the only one: it is a chain
}

}  // namespace
}  // namespace stepsim
