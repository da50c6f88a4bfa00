// What would be left if one collective vanished? Times of the schedules below are sums by hand.
#include "sim/metrics/ceiling.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "sim/metrics/build_report.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

StepReport ReportWithCeilings(const Sketched& built, std::size_t most) {
  StepReport report =
      BuildReport(built.graph, built.costs, {}, Simulate(built.graph, built.costs), {});
  AddCeilings(built.graph, built.costs, most, &report);
  return report;
}

std::optional<Duration> SavedBy(const StepReport& report, const std::string& name) {
  for (const CollectiveReport& collective : report.collectives) {
    if (collective.name == name) return collective.saved;
  }
  ADD_FAILURE() << name;
  return std::nullopt;
}

// Backward of 10 us, then 10 us; buckets of 25 and 5 us in one queue; an optimizer of 1 us.
// As it is: a 10..35, b 35..40, optimizer to 41. Without a: b 20..25, step 26: saves 15, the whole
// of what was exposed. Without b: step 36.
GraphSketch TwoBuckets() {
  GraphSketch s;
  const StreamId compute = s.Stream(0, "compute"), nccl = s.Stream(0, "nccl");
  const TaskId first = s.Compute(compute, 10us);
  const TaskId a = s.Transfer(nccl, 25us, Site::kGradientReduce, "a", {first});
  const TaskId second = s.Compute(compute, 10us);
  const TaskId b = s.Transfer(nccl, 5us, Site::kGradientReduce, "b", {second});
  s.Compute(compute, 1us, "optimizer", {a, b});
  return s;
}

TEST(Ceiling, IsTheStepWithoutTheCollective) {
  GraphSketch sketch = TwoBuckets();
  const StepReport report = ReportWithCeilings(sketch.Build(), 10);
  EXPECT_EQ(report.account().step, 41us);
  EXPECT_EQ(SavedBy(report, "a"), 15us);
  EXPECT_EQ(SavedBy(report, "b"), 5us);
}

// b is exposed for all of its 5 us, a for 15 of 25 us: only the largest is run again.
TEST(Ceiling, IsKnownForTheLargestOnly) {
  GraphSketch sketch = TwoBuckets();
  const StepReport report = ReportWithCeilings(sketch.Build(), 1);
  EXPECT_EQ(SavedBy(report, "a"), 15us);
  EXPECT_EQ(SavedBy(report, "b"), std::nullopt);
}

// Removing a exposed transfer gains nothing where another holds the step up as long: 0 is said.
TEST(Ceiling, MayBeNothing) {
  GraphSketch s;
  const StreamId compute = s.Stream(0, "compute");
  const TaskId a = s.Transfer(s.Stream(0, "nccl"), 9us, Site::kGradientReduce, "a");
  const TaskId b = s.Transfer(s.Stream(0, "other"), 9us, Site::kParameterGather, "b");
  s.Compute(compute, 1us, "k", {a, b});
  EXPECT_EQ(SavedBy(ReportWithCeilings(s.Build(), 10), "a"), 0us);
}

// A collective vanishes on every rank: rank 1 arrives at 30 us, so 12 us of transfer are saved.
TEST(Ceiling, TakesTheCollectiveFromEveryRank) {
  GraphSketch s;
  const StreamId one = s.Stream(0, "compute"), two = s.Stream(1, "compute");
  const TaskId early =
      s.Transfer(s.Stream(0, "nccl"), 12us, Site::kGradientReduce, "r", {s.Compute(one, 20us)});
  const TaskId late =
      s.Transfer(s.Stream(1, "nccl"), 12us, Site::kGradientReduce, "r", {s.Compute(two, 30us)});
  s.Meet({early, late});
  s.Compute(one, 1us, "k", {early});
  s.Compute(two, 1us, "k", {late});
  EXPECT_EQ(SavedBy(ReportWithCeilings(s.Build(), 10), "r"), 12us);
}

}  // namespace
}  // namespace stepsim
