// What a user reads when a job hangs: the exact text.
#include "sim/engine/wait_cycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;

std::string HangOf(GraphSketch& sketch) {
  const Sketched g = sketch.Build();
  try {
    Simulate(g.graph, g.costs);
  } catch (const SimulationError& error) {
    return error.what();
  }
  return "it did not hang";
}

TEST(WaitCycleTest, CollectivesInADifferentOrderOnTwoRanks) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "nccl"), y = s.Stream(1, "nccl");
  const TaskId a0 = s.Transfer(x, 1us, Site::kGradientReduce, "all_reduce a");
  const TaskId b0 = s.Transfer(x, 1us, Site::kGradientReduce, "all_reduce b");
  const TaskId b1 = s.Transfer(y, 1us, Site::kGradientReduce, "all_reduce b");
  const TaskId a1 = s.Transfer(y, 1us, Site::kGradientReduce, "all_reduce a");
  s.Meet({a0, a1});
  s.Meet({b0, b1});
  EXPECT_EQ(HangOf(s),
            "the job cannot finish: these tasks wait for each other in a circle\n"
            "  rank 0: 'all_reduce a' on nccl waits for its peer on rank 1\n"
            "  rank 1: 'all_reduce a' on nccl waits for 'all_reduce b', issued before it on nccl\n"
            "  rank 1: 'all_reduce b' on nccl waits for its peer on rank 0\n"
            "  rank 0: 'all_reduce b' on nccl waits for 'all_reduce a', issued before it on nccl");
}

// The tasks before and behind the circle are not its cause and are not named.
TEST(WaitCycleTest, ACircleOfDependencies) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "compute"), y = s.Stream(0, "copy");
  s.Compute(x, 1us, "before");
  const TaskId a = s.Compute(x, 1us, "a");
  const TaskId b = s.Compute(y, 1us, "b", {a});
  s.builder().AddDependency(b, a);
  s.Compute(y, 1us, "behind");
  EXPECT_EQ(HangOf(s),
            "the job cannot finish: these tasks wait for each other in a circle\n"
            "  rank 0: 'a' on compute waits for 'b' on rank 0\n"
            "  rank 0: 'b' on copy waits for 'a' on rank 0");
}

TEST(WaitCycleTest, ATaskThatWaitsForItself) {
  GraphSketch s;
  const TaskId a = s.Compute(s.Stream(0, "compute"), 1us, "a");
  s.builder().AddDependency(a, a);
  EXPECT_EQ(HangOf(s),
            "the job cannot finish: these tasks wait for each other in a circle\n"
            "  rank 0: 'a' on compute waits for 'a' on rank 0");
}

// The order that matters is that of the shared queue, not of the kernel's own stream.
TEST(WaitCycleTest, NamesTheQueueThatTheyShare) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "compute"), y = s.Stream(0, "nccl"),
                 q = s.Stream(0, "communicator dp", true);
  const Label label{.name = "first", .site = Site::kGradientReduce};
  const TaskId first = s.Add(TaskKind::kTransfer, std::vector<StreamId>{x, q}, 1us, label);
  const TaskId second = s.Add(TaskKind::kTransfer, std::vector<StreamId>{y, q}, 1us,
                              {.name = "second", .site = Site::kGradientReduce});
  s.builder().AddDependency(second, first);
  EXPECT_EQ(HangOf(s),
            "the job cannot finish: these tasks wait for each other in a circle\n"
            "  rank 0: 'first' on compute waits for 'second' on rank 0\n"
            "  rank 0: 'second' on nccl waits for 'first', issued before it on communicator dp");
}

TEST(WaitCycleTest, ALongCircleIsCutOff) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "compute");
  std::vector<TaskId> chain;
  for (int i = 0; i < 25; ++i) chain.push_back(s.Compute(x, 1us, "k" + std::to_string(i)));
  s.builder().AddDependency(chain.back(), chain.front());
  const std::string text = HangOf(s);
  EXPECT_THAT(text, testing::HasSubstr("'k0' on compute waits for 'k24' on rank 0\n"));
  EXPECT_THAT(text, testing::EndsWith("\n  ... and 5 more"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);  // heading, 20 lines, the rest
}

}  // namespace
}  // namespace stepsim
