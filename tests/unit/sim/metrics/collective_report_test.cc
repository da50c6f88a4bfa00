// Why is a collective exposed? One hand-made step per cause; the expected texts follow from the
// rules in the comments, the times from the durations.
#include "sim/metrics/collective_report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "sim/engine/simulate.h"
#include "sim/metrics/accounting.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

class CollectiveReportTest : public testing::Test {
 protected:
  TaskId Kernel(Phase phase, Duration d, const GraphSketch::Tasks& after = {}) {
    const StreamId stream = sketch_.Stream(0, "compute");
    return sketch_.Add(TaskKind::kCompute, {&stream, 1}, d, {.name = "k", .phase = phase}, after);
  }
  TaskId Reduce(const std::string& name, Duration d, const GraphSketch::Tasks& after) {
    return sketch_.Transfer(sketch_.Stream(0, "nccl"), d, Site::kGradientReduce, name, after);
  }
  void BeginMicrostep(std::int32_t m) { sketch_.builder().SetPosition({m, 0}); }

  // Causes by name of the collective, on rank 0.
  std::map<std::string, std::string> Causes() {
    const Sketched built = sketch_.Build();
    const Timeline timeline = Simulate(built.graph, built.costs);
    const RankActivity activity = ObserveRanks(built.graph, timeline).front();
    const IdVector<WorkId, CollectiveChoice> choices;
    const CollectiveFacts facts(built.graph, timeline, choices, {kStepBegin, timeline.makespan});
    std::map<std::string, std::string> causes;
    for (const CollectiveReport& report : ReportCollectives(facts, activity)) {
      causes[report.name] = report.cause;
    }
    return causes;
  }

  GraphSketch sketch_;
};

TEST_F(CollectiveReportTest, ReadyAfterTheLastKernelOfBackward) {
  const TaskId b = Kernel(Phase::kBackward, 10us);
  Kernel(Phase::kOptimizer, 5us, {Reduce("r", 20us, {b})});
  EXPECT_EQ(Causes()["r"], "ready last, nothing to hide behind");
}

// The first micro-step's last bucket has no compute of its own left: that the second micro-step
// computes afterwards is no cover for it.
TEST_F(CollectiveReportTest, JudgedAgainstItsOwnMicrostep) {
  const TaskId b0 = Kernel(Phase::kBackward, 10us);
  const TaskId r0 = Reduce("r0", 20us, {b0});
  BeginMicrostep(1);
  Kernel(Phase::kForward, 5us, {r0});
  const TaskId b1 = Kernel(Phase::kBackward, 10us);
  Kernel(Phase::kOptimizer, 5us, {Reduce("r1", 20us, {b1})});
  const auto causes = Causes();
  EXPECT_EQ(causes.at("r0"), "ready last, nothing to hide behind");
  EXPECT_EQ(causes.at("r1"), "ready last, nothing to hide behind");
}

// FSDP casts and adds behind a collective, on its stream: a's kernel (15..30 us), launched in
// backward, ends after b is ready (20 us), and is no backward that b could have hidden behind.
TEST_F(CollectiveReportTest, KernelsOnOtherStreamsAreNoBackward) {
  const StreamId other = sketch_.Stream(0, "all_reduce");
  const TaskId k1 = Kernel(Phase::kBackward, 10us);
  const TaskId a = Reduce("a", 5us, {k1});
  sketch_.Add(TaskKind::kCompute, {&other, 1}, 15us, {.name = "add", .phase = Phase::kBackward},
              {a});
  const TaskId k2 = Kernel(Phase::kBackward, 10us);
  Kernel(Phase::kOptimizer, 5us, {Reduce("b", 20us, {k2})});
  EXPECT_EQ(Causes().at("b"), "ready last, only 10.0 us of other kernels beside it");
}

// Buckets a and b: while b travels, two copies of a's gradients run (2 us each). They are compute,
// as a profiler counts, but the bucket still came last.
TEST_F(CollectiveReportTest, CopiesOfOtherBucketsAreNoBackward) {
  const TaskId k1 = Kernel(Phase::kBackward, 10us);
  const TaskId a = Reduce("a", 10us, {k1});
  const TaskId k2 = Kernel(Phase::kBackward, 10us);
  const TaskId b = Reduce("b", 20us, {k2});
  Kernel(Phase::kOther, 2us, {a});
  Kernel(Phase::kOther, 2us);
  Kernel(Phase::kOther, 2us, {b});
  const auto causes = Causes();
  EXPECT_EQ(causes.at("a"), "");  // 10..20 beside k2
  EXPECT_EQ(causes.at("b"), "ready last, only 4.00 us of other kernels beside it");
}

// b is ready at 10 us, when k1 ends, but the communicator is taken until 31 us.
TEST_F(CollectiveReportTest, QueuedBehindAnother) {
  const TaskId k0 = Kernel(Phase::kBackward, 1us);
  Reduce("a", 30us, {k0});
  const TaskId k1 = Kernel(Phase::kBackward, 9us);
  const TaskId b = Reduce("b", 10us, {k1});
  Kernel(Phase::kBackward, 5us);
  Kernel(Phase::kOptimizer, 5us, {b});
  EXPECT_EQ(Causes().at("b"), "queued 21.0 us behind the one before");
}

TEST_F(CollectiveReportTest, LongerThanTheComputeBesideIt) {
  const TaskId k0 = Kernel(Phase::kBackward, 1us);
  const TaskId a = Reduce("a", 30us, {k0});
  Kernel(Phase::kBackward, 8us);
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes().at("a"), "longer than the 8.00 us of compute beside it");
}

TEST_F(CollectiveReportTest, ComputeWaitsAtOnce) {
  const TaskId a = Reduce("a", 3us, {});
  Kernel(Phase::kForward, 8us, {a});
  EXPECT_EQ(Causes().at("a"), "compute waits for it at once");
}

// a runs from 1 to 21 us. The kernels beside it are launched at 8 and 16 us and run for 4 and 5: of
// its 11 exposed us all lie before a launch. With launches in time (1 and 5 us) 4 lie at its end.
TEST_F(CollectiveReportTest, KernelsBesideItAreNotLaunchedInTime) {
  const StreamId host = sketch_.Stream(0, "host");
  const TaskId a = Reduce("a", 20us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 4us, {sketch_.Host(host, 8us)});
  Kernel(Phase::kBackward, 5us, {sketch_.Host(host, 8us)});
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes().at("a"), "the kernels beside it wait for their launches");
}
TEST_F(CollectiveReportTest, KernelsBesideItAreLaunchedInTime) {
  const StreamId host = sketch_.Stream(0, "host");
  const TaskId a = Reduce("a", 20us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 8us, {sketch_.Host(host, 1us)});
  Kernel(Phase::kBackward, 8us, {sketch_.Host(host, 4us)});
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes().at("a"), "longer than the 16.0 us of compute beside it");
}

// Resident from 1 us, but the peer comes at 20 us; then 4 us of transfer.
TEST_F(CollectiveReportTest, WaitsForASlowRank) {
  const TaskId k = Kernel(Phase::kBackward, 1us);
  const TaskId here = Reduce("here", 4us, {k});
  const TaskId late = sketch_.Compute(sketch_.Stream(1, "compute"), 20us);
  const TaskId there =
      sketch_.Transfer(sketch_.Stream(1, "nccl"), 4us, Site::kGradientReduce, "there", {late});
  sketch_.Meet({here, there});
  EXPECT_EQ(Causes().at("here"), "waits for the slowest rank: 19.0 us");
}

// The same between two stages of a pipeline: a bubble.
TEST_F(CollectiveReportTest, WaitsForAnotherStage) {
  const StreamId first = sketch_.Stream(0, "pp"), second = sketch_.Stream(1, "pp");
  sketch_.Meet({sketch_.Transfer(first, 0us, Site::kPipelineTransfer, "p2p"),
                sketch_.Transfer(second, 0us, Site::kPipelineTransfer, "p2p")});
  const TaskId here = Reduce("here", 4us, {Kernel(Phase::kBackward, 1us)});
  const TaskId late = sketch_.Compute(sketch_.Stream(1, "compute"), 20us);
  const TaskId there =
      sketch_.Transfer(sketch_.Stream(1, "nccl"), 4us, Site::kGradientReduce, "there", {late});
  sketch_.Meet({here, there});
  EXPECT_EQ(Causes().at("here"), "bubble: waits 19.0 us for other stages");
}

}  // namespace
}  // namespace stepsim
