// Which part of a timeline is the reported step, and how do micro-steps tile it?
#include "sim/metrics/build_report.h"

#include <gtest/gtest.h>

#include <chrono>

#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

class BuildReportTest : public testing::Test {
 protected:
  void Begin(std::int32_t step, std::int32_t microstep) {
    sketch_.builder().SetPosition({microstep, step});
  }
  TaskId Kernel(Duration d, const GraphSketch::Tasks& after = {}) {
    return sketch_.Compute(sketch_.Stream(0, "compute"), d, "k", after);
  }
  TaskId Reduce(Duration d, const GraphSketch::Tasks& after) {
    return sketch_.Transfer(sketch_.Stream(0, "nccl"), d, Site::kGradientReduce, "r", after);
  }
  StepReport Report() {
    const Sketched built = sketch_.Build();
    return BuildReport(built.graph, built.costs, {}, Simulate(built.graph, built.costs), {});
  }

  GraphSketch sketch_;
};

// Step 0: 10 us, and a transfer of 30 us that nobody waits for. Step 1 begins at 10 us, under it;
// its own transfer is queued until 40 us and lies behind its last kernel (35 us): not in the step.
TEST_F(BuildReportTest, AStepEndsWithItsLastKernel) {
  Begin(0, 0);
  Reduce(30us, {Kernel(10us)});
  Begin(1, 0);
  Kernel(20us);
  Reduce(7us, {Kernel(5us)});
  const StepReport report = Report();
  EXPECT_EQ(report.window.begin, kStepBegin + 10us);
  EXPECT_EQ(report.window.end, kStepBegin + 35us);
  EXPECT_EQ(report.account().compute, 25us);
  EXPECT_EQ(report.account().communication, 25us);
  ASSERT_EQ(report.collectives.size(), 1u);  // the one of step 0
  EXPECT_EQ(report.collectives[0].hidden, 25us);
}

// The transfer that runs on belongs to the step before: the micro-step beneath it reduces nothing.
TEST_F(BuildReportTest, TransfersOfTheStepBeforeMakeNoMicrostepReduce) {
  Begin(0, 0);
  Reduce(30us, {Kernel(10us)});
  Begin(1, 0);
  Kernel(20us);
  Begin(1, 1);
  const TaskId r = Reduce(7us, {Kernel(5us)});
  Kernel(1us, {r});
  const StepReport report = Report();
  ASSERT_EQ(report.microsteps.size(), 2u);
  EXPECT_FALSE(report.microsteps[0].is_reducing);
  EXPECT_TRUE(report.microsteps[1].is_reducing);
  // 10..30 and 30..48: 5 us, idle to 40 (under the old transfer: exposed), 7 of its own, 1.
  EXPECT_EQ(report.microsteps[0].account.step, 20us);
  EXPECT_EQ(report.microsteps[1].account.step, 18us);
  EXPECT_EQ(report.microsteps[1].account.exposed_total(), 12us);
}

// The tail of an early micro-step counts to it: the next one begins with its first kernel.
TEST_F(BuildReportTest, MicrostepsTileTheStep) {
  Begin(0, 0);
  const TaskId r = Reduce(30us, {Kernel(10us)});
  Begin(0, 1);
  Kernel(5us, {r});
  const StepReport report = Report();
  ASSERT_EQ(report.microsteps.size(), 2u);
  EXPECT_EQ(report.microsteps[0].account.step, 40us);
  EXPECT_EQ(report.microsteps[0].account.exposed_total(), 30us);
  EXPECT_EQ(report.microsteps[1].account.step, 5us);
  EXPECT_EQ(report.account().step, 45us);
}

// What the next micro-step gathers first counts to it, from the begin of the gather (10 us) on;
// what it gathers while the one before still computes does not begin it.
TEST_F(BuildReportTest, AMicrostepBeginsWithItsFirstGather) {
  const auto gather = [&](const char* stream, Duration d, const GraphSketch::Tasks& after) {
    return sketch_.Transfer(sketch_.Stream(0, stream), d, Site::kParameterGather, "g", after);
  };
  Begin(0, 0);
  const TaskId k0 = Kernel(10us);
  Begin(0, 1);
  gather("early", 4us, {});
  const TaskId k1 = Kernel(5us, {gather("nccl", 6us, {k0})});
  Begin(0, 2);
  Kernel(5us, {gather("early", 2us, {k1})});
  const StepReport report = Report();
  ASSERT_EQ(report.microsteps.size(), 3u);
  EXPECT_EQ(report.microsteps[0].account.step, 10us);
  EXPECT_EQ(report.microsteps[0].account.exposed_total(), 0us);
  EXPECT_EQ(report.microsteps[1].account.step, 6us + 5us);
  EXPECT_EQ(report.microsteps[1].account.exposed_total(), 6us);
  EXPECT_EQ(report.microsteps[2].account.step, 2us + 5us);
  EXPECT_EQ(report.microsteps[2].account.exposed_total(), 2us);
}

// The reported rank, when ranks run one kernel of the given time in each of `steps` steps.
std::size_t ReportedRank(std::initializer_list<Duration> times, std::int32_t steps) {
  GraphSketch sketch;
  std::int32_t rank = 0;
  for (const Duration time : times) {
    for (std::int32_t step = 0; step < steps; ++step) {
      sketch.builder().SetPosition({0, step});
      sketch.Compute(sketch.Stream(rank, "compute"), time);
    }
    ++rank;
  }
  const Sketched built = sketch.Build();
  return BuildReport(built.graph, built.costs, {}, Simulate(built.graph, built.costs), {})
      .reported_rank;
}

TEST(ReportedRank, IsTheSlowest) {
  for (const std::int32_t steps : {1, 2}) {
    EXPECT_EQ(ReportedRank({10us, 30us, 20us}, steps), 1u) << steps;
    EXPECT_EQ(ReportedRank({10us, 20us, 30us}, steps), 2u) << steps;
  }
}

TEST(ReportedRank, OfEquallySlowOnesTheFirst) {
  for (const std::int32_t steps : {1, 2}) {
    EXPECT_EQ(ReportedRank({30us, 30us, 30us}, steps), 0u) << steps;
    EXPECT_EQ(ReportedRank({10us, 30us, 30us}, steps), 1u) << steps;
  }
}

}  // namespace
}  // namespace stepsim
