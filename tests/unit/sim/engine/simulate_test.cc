// The semantics of the event loop with fixed costs, on graphs small enough to follow by hand.
#include "sim/engine/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;
using testing::HasSubstr;
using testing::ThrowsMessage;

SimTime At(Duration time) { return kStepBegin + time; }

TEST(SimulateTest, NothingTakesNoTime) {
  const Timeline timeline = Simulate(TaskGraphBuilder().Build(), {});
  EXPECT_EQ(timeline.makespan, kStepBegin);
  EXPECT_EQ(timeline.last_task, kNoId<TaskId>);
}

TEST(SimulateTest, AStreamRunsOneTaskAfterAnother) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x");
  const TaskId a = s.Compute(x, 3us), b = s.Compute(x, 4us);
  const Sketched g = s.Build();
  const Timeline t = Simulate(g.graph, g.costs);
  EXPECT_EQ(t.start[a], At(0us));
  EXPECT_EQ(t.end[a], At(3us));
  EXPECT_EQ(t.start[b], At(3us));
  EXPECT_EQ(t.end[b], At(7us));
  EXPECT_EQ(t.makespan, At(7us));
  EXPECT_EQ(t.last_task, b);
  EXPECT_EQ(t.bound_by[a].bound(), Bound::kBegin);
  EXPECT_EQ(t.bound_by[b].bound(), Bound::kStreamOrder);
  EXPECT_EQ(t.bound_by[b].task(), a);
}

// The head of y waits for a; what stands behind the head waits too, though it needs nothing.
TEST(SimulateTest, AReadyTaskWaitsForTheHeadOfItsStream) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 10us);
  const TaskId head = s.Compute(y, 1us, "head", {a});
  const TaskId behind = s.Compute(y, 1us, "behind");
  const Sketched g = s.Build();
  const Timeline t = Simulate(g.graph, g.costs);
  EXPECT_EQ(t.start[head], At(10us));
  EXPECT_EQ(t.bound_by[head].bound(), Bound::kDependency);
  EXPECT_EQ(t.start[behind], At(11us));
}

// A task on two streams needs the head of both and holds both.
TEST(SimulateTest, AMultiStreamTaskHoldsAllItsStreams) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y"), q = s.Stream(0, "queue", true);
  s.Compute(x, 2us);
  s.Compute(y, 5us);
  const TaskId both =
      s.Add(TaskKind::kCompute, std::vector<StreamId>{x, y}, 10us, {.name = "both"});
  const TaskId after_x = s.Compute(x, 1us), after_y = s.Compute(y, 1us);
  const TaskId elsewhere = s.Compute(q, 1us);
  const Sketched g = s.Build();
  const Timeline t = Simulate(g.graph, g.costs);
  EXPECT_EQ(t.start[both], At(5us));
  EXPECT_EQ(t.bound_by[both].task(), TaskId{1});
  EXPECT_EQ(t.start[after_x], At(15us));
  EXPECT_EQ(t.start[after_y], At(15us));
  EXPECT_EQ(t.start[elsewhere], At(0us));
}

// Rank 0 arrives at 2 us, rank 1 at 9 us; the transfer lasts 4 us from then on, on both.
TEST(SimulateTest, MembersOfARendezvousTransferFromTheLastArrival) {
  GraphSketch s;
  const StreamId early = s.Stream(0, "s"), late = s.Stream(1, "s");
  s.Compute(early, 2us);
  const TaskId a = s.Transfer(early, 4us, Site::kGradientReduce);
  const TaskId after = s.Compute(early, 1us);
  const TaskId slow = s.Compute(late, 9us);
  const TaskId b = s.Transfer(late, 4us, Site::kGradientReduce);
  s.Meet({a, b});
  const Sketched g = s.Build();
  const Timeline t = Simulate(g.graph, g.costs);
  EXPECT_EQ(t.start[a], At(2us)) << "resident";
  EXPECT_EQ(t.start[b], At(9us));
  EXPECT_EQ(t.meetings[RendezvousId{0}].transfer_start, At(9us));
  EXPECT_EQ(t.meetings[RendezvousId{0}].last_arrival, b);
  EXPECT_EQ(t.end[a], At(13us));
  EXPECT_EQ(t.end[b], At(13us));
  EXPECT_EQ(t.start[after], At(13us));
  EXPECT_EQ(t.bound_by[b].task(), slow);
}

TEST(SimulateTest, ARendezvousOfOneMeetsAtOnce) {
  GraphSketch s;
  const TaskId a = s.Transfer(s.Stream(0, "s"), 4us, Site::kGradientReduce);
  s.Meet({a});
  const Sketched g = s.Build();
  const Timeline t = Simulate(g.graph, g.costs);
  EXPECT_EQ(t.meetings[RendezvousId{0}].transfer_start, At(0us));
  EXPECT_EQ(t.end[a], At(4us));
}

// Both predecessors end at 5 us: the event that was pushed last, that of the task that started
// last, is the one that set the start.
TEST(SimulateTest, OfEqualTimesTheLaterEventSetsTheStart) {
  for (const bool swap : {false, true}) {
    GraphSketch s;
    const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
    const TaskId first = s.Compute(swap ? y : x, 5us, "first");
    const TaskId second = s.Compute(swap ? x : y, 5us, "second");
    const TaskId joined = s.Compute(s.Stream(0, "z"), 1us, "joined", {second, first});
    const Sketched g = s.Build();
    const Timeline t = Simulate(g.graph, g.costs);
    EXPECT_EQ(t.bound_by[joined].task(), second) << swap;
  }
}

// One predecessor by stream order and by dependency: the event wait is what the programmer wrote.
TEST(SimulateTest, ADependencyOnTheStreamPredecessorIsADependency) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x");
  const TaskId a = s.Compute(x, 1us), b = s.Compute(x, 1us, "b", {a});
  const Sketched g = s.Build();
  EXPECT_EQ(Simulate(g.graph, g.costs).bound_by[b].bound(), Bound::kDependency);
}

TEST(SimulateTest, OfTasksThatEndTogetherTheLastEventIsTheLastTask) {
  GraphSketch s;
  s.Compute(s.Stream(0, "x"), 5us);
  const TaskId b = s.Compute(s.Stream(0, "y"), 5us);
  s.Compute(s.Stream(0, "z"), 4us);
  const Sketched g = s.Build();
  EXPECT_EQ(Simulate(g.graph, g.costs).last_task, b);
}

TEST(SimulateTest, ZeroDurationsHappenInOrderAtOneMoment) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 0us);
  const TaskId b = s.Compute(y, 0us, "b", {a});
  const TaskId c = s.Compute(x, 0us, "c", {b});
  const TaskId d = s.Compute(y, 7us, "d", {c});
  const TaskId e = s.Compute(x, 0us, "e", {d});
  const Sketched g = s.Build();
  const Timeline t = Simulate(g.graph, g.costs);
  for (const TaskId task : {a, b, c}) {
    EXPECT_EQ(t.start[task], At(0us));
    EXPECT_EQ(t.end[task], At(0us));
  }
  EXPECT_EQ(t.start[d], At(0us));
  EXPECT_EQ(t.bound_by[d].task(), c);
  EXPECT_EQ(t.start[e], At(7us));
  EXPECT_EQ(t.makespan, At(7us));
  EXPECT_EQ(t.last_task, e);
}

TEST(SimulateTest, RunsAsLongAsTimeHasRoom) {
  constexpr Duration kLongest = Duration::max() - Duration(1);  // the end itself means "never"
  GraphSketch s;
  const StreamId x = s.Stream(0, "x");
  s.Compute(x, kLongest - 5us);
  s.Compute(x, 5us);
  Sketched g = s.Build();
  EXPECT_EQ(Simulate(g.graph, g.costs).makespan, At(kLongest));
  g.costs[WorkId{1}].isolated += Duration(1);
  EXPECT_THAT([&] { Simulate(g.graph, g.costs); },
              ThrowsMessage<SimulationError>(
                  "the step would take longer than 100 days: check sizes and rates"));
}

// Twenty devices that each work for 90 days in parallel take 90 days, not 1800.
TEST(SimulateTest, ParallelTasksDoNotAddUp) {
  GraphSketch s;
  for (int rank = 0; rank < 20; ++rank) s.Compute(s.Stream(rank, "x"), std::chrono::hours(24 * 90));
  const Sketched g = s.Build();
  EXPECT_EQ(Simulate(g.graph, g.costs).makespan, At(std::chrono::hours(24 * 90)));
}

TEST(SimulateTest, RefusesWrongCosts) {
  GraphSketch s;
  s.Compute(s.Stream(0, "x"), 1us);
  Sketched g = s.Build();
  EXPECT_THAT([&] { Simulate(g.graph, TaskCosts(2)); },
              ThrowsMessage<InternalError>(HasSubstr("one cost per work")));
  g.costs[WorkId{0}].isolated = Duration(-1);
  EXPECT_THAT([&] { Simulate(g.graph, g.costs); },
              ThrowsMessage<InternalError>(HasSubstr("must not be negative")));
}

}  // namespace
}  // namespace stepsim
