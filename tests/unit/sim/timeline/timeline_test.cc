#include "sim/timeline/timeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

SimTime At(Duration time) { return kStepBegin + time; }

//   rank 0  nccl |      | r0 waits  | all-reduce |       a: 2 us, r: 5 us from 9 us on, z: 3 us
//   rank 0  comp | a                             | z |
//   rank 1  comp | b         | c    | all-reduce |       b: 6 us, c: 3 us
class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    GraphSketch s;
    const StreamId comp = s.Stream(0, "comp"), nccl = s.Stream(0, "nccl");
    const StreamId far = s.Stream(1, "comp");
    a_ = s.Compute(comp, 2us, "a");
    r0_ = s.Transfer(nccl, 5us, Site::kGradientReduce, "r", {a_});
    z_ = s.Compute(comp, 3us, "z", {r0_});
    b_ = s.Compute(far, 6us, "b");
    c_ = s.Compute(far, 3us, "c");
    r1_ = s.Transfer(far, 5us, Site::kGradientReduce, "r");
    s.Meet({r0_, r1_});
    built_ = s.Build();
    timeline_ = Simulate(built_.graph, built_.costs);
  }

  TaskId a_{}, b_{}, c_{}, r0_{}, r1_{}, z_{};
  Sketched built_;
  Timeline timeline_;
};

TEST_F(TimelineTest, TransfersStartWithTheLastArrival) {
  EXPECT_EQ(timeline_.start[r0_], At(2us));
  EXPECT_EQ(TransferStart(built_.graph, timeline_, r0_), At(9us));
  EXPECT_EQ(TransferStart(built_.graph, timeline_, r1_), At(9us));
  EXPECT_EQ(TransferStart(built_.graph, timeline_, b_), At(0us));
}

TEST_F(TimelineTest, ReadyIsTheEndOfTheLastDependencyNotOfTheStream) {
  const auto ready = ReadyTimes(built_.graph, timeline_);
  EXPECT_EQ(ready[a_], At(0us));
  EXPECT_EQ(ready[r0_], At(2us));
  EXPECT_EQ(ready[c_], At(0us)) << "only stream order held it back";
  EXPECT_EQ(ready[z_], At(14us));
}

TEST_F(TimelineTest, TheCauseOfATransferIsThatOfTheLastArrival) {
  EXPECT_EQ(timeline_.bound_by[r0_].task(), a_);
  EXPECT_EQ(CauseOf(built_.graph, timeline_, r0_).task(), c_);
  EXPECT_EQ(CauseOf(built_.graph, timeline_, r0_).bound(), Bound::kStreamOrder);
  EXPECT_EQ(CauseOf(built_.graph, timeline_, z_).task(), r0_);
  EXPECT_EQ(CauseOf(built_.graph, timeline_, b_).bound(), Bound::kBegin);
}

// b 0-6, c 6-9, the all-reduce 9-14 (named by its member on rank 0, which z waited for), z 14-17.
TEST_F(TimelineTest, TheCriticalPathCrossesTheMeeting) {
  const std::vector<PathPiece> path = CriticalPath(built_.graph, timeline_, timeline_.last_task);
  ASSERT_EQ(path.size(), 4u);
  const TaskId tasks[] = {b_, c_, r0_, z_};
  const Duration bounds[] = {0us, 6us, 9us, 14us, 17us};
  for (std::size_t i = 0; i < path.size(); ++i) {
    EXPECT_EQ(path[i].task, tasks[i]) << i;
    EXPECT_EQ(path[i].begin, At(bounds[i])) << i;
    EXPECT_EQ(path[i].end, At(bounds[i + 1])) << i;
  }
  EXPECT_EQ(timeline_.makespan, At(17us));
}

TEST_F(TimelineTest, AnyTaskHasAPath) {
  const std::vector<PathPiece> path = CriticalPath(built_.graph, timeline_, a_);
  ASSERT_EQ(path.size(), 1u);
  EXPECT_EQ(path[0].end, At(2us));
}

TEST(CriticalPathTest, OfNothingIsEmpty) {
  const TaskGraph graph = TaskGraphBuilder().Build();
  const Timeline timeline = Simulate(graph, {});
  EXPECT_TRUE(CriticalPath(graph, timeline, timeline.last_task).empty());
}

TEST(BoundByTest, HoldsTheLargestId) {
  const TaskId last{0x3FFFFFFE};
  EXPECT_EQ(BoundBy(Bound::kStreamOrder, last).task(), last);
  EXPECT_EQ(BoundBy(Bound::kStreamOrder, last).bound(), Bound::kStreamOrder);
  EXPECT_EQ(BoundBy(Bound::kDependency, TaskId{0}).bound(), Bound::kDependency);
  EXPECT_EQ(BoundBy().bound(), Bound::kBegin);
}

}  // namespace
}  // namespace stepsim
