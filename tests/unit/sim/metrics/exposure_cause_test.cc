// Every named cause, each from a step made by hand; what is expected follows from the comments.
#include "sim/metrics/exposure_cause.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "sim/metrics/collective_report.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

// Transfers run at half their speed while a kernel is beside them.
class HalfSpeed : public Interference {
 public:
  explicit HalfSpeed(const TaskGraph& graph) : graph_(graph) {}
  void Rates(RankId, std::span<const RunningTask> running, std::span<double> rates) override {
    bool computes = false;
    for (const RunningTask& task : running) computes = computes || !IsTransfer(task);
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (computes && IsTransfer(running[i])) rates[i] = 0.5;
    }
  }

 private:
  bool IsTransfer(const RunningTask& t) const { return graph_.kind(t.task) == TaskKind::kTransfer; }
  const TaskGraph& graph_;
};

class ExposureCauseTest : public ::testing::Test {
 protected:
  TaskId Kernel(Phase phase, Duration d, const GraphSketch::Tasks& after = {}) {
    const StreamId stream = sketch_.Stream(0, "compute");
    return sketch_.Add(TaskKind::kCompute, {&stream, 1}, d, {.name = "k", .phase = phase}, after);
  }
  TaskId Transfer(Site site, const std::string& name, Duration d, const GraphSketch::Tasks& after) {
    return sketch_.Transfer(sketch_.Stream(0, "nccl"), d, site, name, after);
  }
  TaskId Reduce(const std::string& name, Duration d, const GraphSketch::Tasks& after) {
    return Transfer(Site::kGradientReduce, name, d, after);
  }

  std::map<std::string, ExposureCause> Causes(bool slows_transfers = false) {
    const Sketched built = sketch_.Build();
    HalfSpeed half(built.graph);
    const Timeline timeline = Simulate(built.graph, built.costs, slows_transfers ? &half : nullptr);
    const RankActivity activity = ObserveRanks(built.graph, timeline).front();
    IdVector<WorkId, CollectiveChoice> choices;
    for (const TaskCost& cost : built.costs) choices.push_back({"", "", cost.isolated});
    const CollectiveFacts facts(built.graph, timeline, choices, {kStepBegin, timeline.makespan});
    std::map<std::string, ExposureCause> causes;
    for (const CollectiveReport& report : ReportCollectives(facts, activity)) {
      causes[report.name] = report.cause_kind;
    }
    return causes;
  }

  GraphSketch sketch_;
};

TEST_F(ExposureCauseTest, Hidden) {
  Reduce("r", 5us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 10us);
  EXPECT_EQ(Causes()["r"], ExposureCause::kHidden);
}

TEST_F(ExposureCauseTest, TailAfterTheLastBackward) {
  Kernel(Phase::kOptimizer, 1us, {Reduce("r", 5us, {Kernel(Phase::kBackward, 1us)})});
  EXPECT_EQ(Causes()["r"], ExposureCause::kTail);
}

// b is ready at 10 us; a has the communicator until 31 us.
TEST_F(ExposureCauseTest, Queued) {
  Reduce("a", 30us, {Kernel(Phase::kBackward, 1us)});
  const TaskId b = Reduce("b", 10us, {Kernel(Phase::kBackward, 9us)});
  Kernel(Phase::kBackward, 5us);
  Kernel(Phase::kOptimizer, 5us, {b});
  EXPECT_EQ(Causes()["b"], ExposureCause::kQueued);
}

// FSDP1 divides gradients on the collectives' stream: b's division has its inputs at 10 us and runs
// when a is done, at 31 us.
TEST_F(ExposureCauseTest, QueuedWithItsDivision) {
  const StreamId nccl = sketch_.Stream(0, "nccl");
  const Label divide{.name = "divide", .site = Site::kNone, .phase = Phase::kOther};
  Reduce("a", 30us, {Kernel(Phase::kBackward, 1us)});
  sketch_.Add(TaskKind::kCompute, {&nccl, 1}, 1us, divide, {Kernel(Phase::kBackward, 9us)});
  const TaskId b = Reduce("b", 10us, {});
  Kernel(Phase::kBackward, 5us);
  Kernel(Phase::kOptimizer, 5us, {b});
  EXPECT_EQ(Causes()["b"], ExposureCause::kQueued);
}

// The same with nothing before it, after the last kernel of backward.
TEST_F(ExposureCauseTest, TailWithItsDivision) {
  const StreamId nccl = sketch_.Stream(0, "nccl");
  const Label divide{.name = "divide", .site = Site::kNone, .phase = Phase::kOther};
  sketch_.Add(TaskKind::kCompute, {&nccl, 1}, 1us, divide, {Kernel(Phase::kBackward, 9us)});
  Kernel(Phase::kOptimizer, 5us, {Reduce("b", 10us, {})});
  EXPECT_EQ(Causes()["b"], ExposureCause::kTail);
}

// b waits 1 us of its turn, but is 30 us long with 5 us beside it: the queue is not what costs.
TEST_F(ExposureCauseTest, ShortQueueIsNotTheCause) {
  Reduce("a", 10us, {Kernel(Phase::kBackward, 1us)});
  const TaskId b = Reduce("b", 30us, {Kernel(Phase::kBackward, 9us)});
  Kernel(Phase::kBackward, 6us);
  Kernel(Phase::kOptimizer, 5us, {b});
  EXPECT_EQ(Causes()["b"], ExposureCause::kLonger);
}

TEST_F(ExposureCauseTest, LongerThanItsWindow) {
  const TaskId a = Reduce("a", 30us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 8us);
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes()["a"], ExposureCause::kLonger);
}

// A gather that begins when the layer before has ended, with nothing else to run.
TEST_F(ExposureCauseTest, ReadyTooLate) {
  const TaskId before = Kernel(Phase::kForward, 8us);
  Kernel(Phase::kForward, 8us, {Transfer(Site::kParameterGather, "g", 5us, {before})});
  EXPECT_EQ(Causes()["g"], ExposureCause::kReadyTooLate);
}

// The same within a layer: the product before makes what it sends, the one behind needs it.
TEST_F(ExposureCauseTest, SandwichedBetweenTwoProducts) {
  const TaskId before = Kernel(Phase::kForward, 8us);
  Kernel(Phase::kForward, 8us, {Transfer(Site::kTensorParallel, "t", 5us, {before})});
  EXPECT_EQ(Causes()["t"], ExposureCause::kSandwiched);
}

// The kernels beside a are launched at 8 and 16 us.
TEST_F(ExposureCauseTest, LaunchBound) {
  const StreamId host = sketch_.Stream(0, "host");
  const TaskId a = Reduce("a", 20us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 4us, {sketch_.Host(host, 8us)});
  Kernel(Phase::kBackward, 5us, {sketch_.Host(host, 8us)});
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes()["a"], ExposureCause::kLaunchBound);
}

// Resident from 1 us; the peer comes at 20 us, and both are copies of one network.
TEST_F(ExposureCauseTest, WaitsForAPeer) {
  const TaskId here = Reduce("here", 4us, {Kernel(Phase::kBackward, 1us)});
  const TaskId late = sketch_.Compute(sketch_.Stream(1, "compute"), 20us);
  const TaskId there =
      sketch_.Transfer(sketch_.Stream(1, "nccl"), 4us, Site::kGradientReduce, "there", {late});
  sketch_.Meet({here, there});
  EXPECT_EQ(Causes()["here"], ExposureCause::kPeerWait);
}

// The same between stages of a pipeline.
TEST_F(ExposureCauseTest, Bubble) {
  const StreamId here_stream = sketch_.Stream(0, "pp");
  const TaskId k = Kernel(Phase::kForward, 1us);
  const TaskId here = sketch_.Transfer(here_stream, 4us, Site::kPipelineTransfer, "p2p", {k});
  const TaskId late = sketch_.Compute(sketch_.Stream(1, "compute"), 20us);
  const TaskId there =
      sketch_.Transfer(sketch_.Stream(1, "pp"), 4us, Site::kPipelineTransfer, "p2p", {late});
  sketch_.Meet({here, there});
  Kernel(Phase::kForward, 1us, {here});
  EXPECT_EQ(Causes()["p2p"], ExposureCause::kBubble);
}

// a needs 12 us alone and has 12 us of compute beside it: hidden, did the kernel not slow it down.
// It is half done after 12 us, and exposed for the other 6.
TEST_F(ExposureCauseTest, SlowedByCompute) {
  const TaskId a = Reduce("a", 12us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 12us);
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes(/*slows_transfers=*/true)["a"], ExposureCause::kSlowed);
}
TEST_F(ExposureCauseTest, HiddenWithoutContention) {
  const TaskId a = Reduce("a", 12us, {Kernel(Phase::kBackward, 1us)});
  Kernel(Phase::kBackward, 12us);
  Kernel(Phase::kOptimizer, 5us, {a});
  EXPECT_EQ(Causes()["a"], ExposureCause::kHidden);
}

TEST(ExposureCauses, HaveARowEach) {
  std::set<std::string> names;
  for (const ExposureCauseRow& row : ExposureCauses()) {
    EXPECT_EQ(&DescribeCause(row.cause), &row);
    EXPECT_TRUE(names.insert(std::string(row.name)).second) << row.name;
    EXPECT_FALSE(row.meaning.empty());
    EXPECT_EQ(row.remedy.empty(), row.cause == ExposureCause::kHidden) << row.name;
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ExposureCause::kLonger) + 1);
}

}  // namespace
}  // namespace stepsim
