// How much room has a collective? Expected values follow from the durations of the sketches:
// compute that runs between the begin of the transfer and its first use, less the transfer.
#include "sim/metrics/slack.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "sim/engine/simulate.h"
#include "sim/metrics/collective_report.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

class SlackTest : public testing::Test {
 protected:
  TaskId Kernel(const std::string& name, Duration d, const GraphSketch::Tasks& after = {},
                const std::string& stream = "compute") {
    const StreamId s = sketch_.Stream(0, stream);
    return sketch_.Add(TaskKind::kCompute, {&s, 1}, d, {.name = name, .phase = Phase::kBackward},
                       after);
  }
  TaskId Transfer(const std::string& name, Duration d, const GraphSketch::Tasks& after) {
    return sketch_.Transfer(sketch_.Stream(0, "nccl"), d, Site::kGradientReduce, name, after);
  }
  CollectiveReport ReportOf(const std::string& name) {
    const Sketched built = sketch_.Build();
    const Timeline timeline = Simulate(built.graph, built.costs);
    const RankActivity activity = ObserveRanks(built.graph, timeline).front();
    const IdVector<WorkId, CollectiveChoice> choices;
    const CollectiveFacts facts(built.graph, timeline, choices, {kStepBegin, timeline.makespan});
    for (const CollectiveReport& report : ReportCollectives(facts, activity)) {
      if (report.name == name) return report;
    }
    ADD_FAILURE() << "no collective " << name;
    return {};
  }

  GraphSketch sketch_;
};

// b3 10, then the reduction of 4 beside b2 of 10; the optimizer uses it.
TEST_F(SlackTest, ComputeStillToRunLessTheTransfer) {
  const TaskId b3 = Kernel("b3", 10us);
  const TaskId r3 = Transfer("r3", 4us, {b3});
  Kernel("b2", 10us);
  Kernel("optimizer", 5us, {r3});
  const CollectiveReport report = ReportOf("r3");
  EXPECT_EQ(report.slack, 6us);
  EXPECT_EQ(report.first_use, "optimizer");
}

TEST_F(SlackTest, NegativeByWhatIsExposed) {
  const TaskId b3 = Kernel("b3", 10us);
  const TaskId r3 = Transfer("r3", 40us, {b3});
  Kernel("b2", 10us);
  Kernel("optimizer", 5us, {r3});
  const CollectiveReport report = ReportOf("r3");
  EXPECT_EQ(report.slack, -30us);
  EXPECT_EQ(report.slack, -report.exposed);
}

// Exactly as long as the compute beside it: the hiding condition holds with equality.
TEST_F(SlackTest, ZeroAtTheBoundary) {
  const TaskId b3 = Kernel("b3", 10us);
  const TaskId r3 = Transfer("r3", 10us, {b3});
  Kernel("b2", 10us);
  Kernel("optimizer", 5us, {r3});
  const CollectiveReport report = ReportOf("r3");
  EXPECT_EQ(report.slack, 0us);
  EXPECT_EQ(report.exposed, 0us);
}

// A copy behind the collective on a stream of its own is part of the communication.
TEST_F(SlackTest, LooksThroughKernelsOfCommunicationStreams) {
  const TaskId b3 = Kernel("b3", 10us);
  const TaskId r3 = Transfer("r3", 4us, {b3});
  const TaskId copy = Kernel("copy", 1us, {r3}, "nccl");
  Kernel("b2", 10us);
  Kernel("optimizer", 5us, {copy});
  const CollectiveReport report = ReportOf("r3");
  EXPECT_EQ(report.first_use, "optimizer");
  EXPECT_EQ(report.slack, 6us);
}

// A collective that only delays another one is used where that one is.
TEST_F(SlackTest, LooksThroughTheQueue) {
  const TaskId b3 = Kernel("b3", 10us);
  Transfer("r3", 4us, {b3});
  const TaskId g1 = Transfer("g1", 2us, {});
  Kernel("b2", 10us);
  Kernel("b1", 10us, {g1});
  const CollectiveReport report = ReportOf("r3");
  EXPECT_EQ(report.first_use, "b1");
  EXPECT_EQ(report.slack, 6us);
}

TEST_F(SlackTest, NothingWaitsForIt) {
  const TaskId b3 = Kernel("b3", 10us);
  Transfer("r3", 4us, {b3});
  Kernel("b2", 10us);
  const CollectiveReport report = ReportOf("r3");
  EXPECT_EQ(report.first_use, "");
  EXPECT_EQ(report.slack, 6us);  // until the end of the step
}

// A dependency on a task that was added later: the order of ids is not the order of causes.
TEST_F(SlackTest, GraphsInAnyOrder) {
  const TaskId r3 = Transfer("r3", 4us, {});
  const TaskId b3 = Kernel("b3", 10us);
  sketch_.builder().AddDependency(b3, r3);
  Kernel("b2", 10us);
  Kernel("optimizer", 5us, {r3});
  EXPECT_EQ(ReportOf("r3").slack, 6us);
}

}  // namespace
}  // namespace stepsim
