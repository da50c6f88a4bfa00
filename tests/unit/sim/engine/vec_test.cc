// Replays every worked example of the schedule specification (tests/data/schedules.vec). The
// expected times were computed there by a direct evaluation of the rules, not by this engine.
#include "tests/support/vec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "sim/engine/simulate.h"
#include "sim/graph/graph_algorithms.h"
#include "sim/metrics/accounting.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

const char kFile[] = STEPSIM_SOURCE_DIR "/tests/data/schedules.vec";

class VecTest : public testing::TestWithParam<VecExample> {};

TEST_P(VecTest, EngineMeetsEveryStartTime) {
  const TaskGraph graph = BuildVec(GetParam());
  const TaskCosts costs = CostsFromTags(graph);
  const Timeline timeline = Simulate(graph, costs);
  const VecExpectation observed = ObserveVec(GetParam(), timeline);
  EXPECT_EQ(observed.makespan, GetParam().expected.makespan);
  EXPECT_EQ(observed.start, GetParam().expected.start);
  EXPECT_EQ(LongestPath(graph, DurationsFromTags(graph)), timeline.makespan - kStepBegin);
  AccountRank(graph, costs, timeline, RankId{0}, {kStepBegin, timeline.makespan});
}

std::string NameOf(const testing::TestParamInfo<VecExample>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, VecTest, testing::ValuesIn(ReadVecFile(kFile)), NameOf);

// The specification has 20 examples; a reader that drops one would pass all others.
TEST(VecFileTest, HoldsTwentyExamples) { EXPECT_EQ(ReadVecFile(kFile).size(), 20u); }

TEST(ParseVecTest, ReadsEveryField) {
  const auto examples = ParseVec(
      "text around\n```vec one\n"
      "a | 0.C | op a, with comma | 10 | - | -\n"
      "b | x.01 | op b | 0 | N | a,a\n"
      "expect makespan=10 start: a=0 b=10\n```\n");
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(examples[0].name, "one");
  ASSERT_EQ(examples[0].lines.size(), 2u);
  const VecLine& b = examples[0].lines[1];
  EXPECT_EQ(b.id, "b");
  EXPECT_EQ(b.stream, "x.01");
  EXPECT_EQ(b.op, "op b");
  EXPECT_EQ(b.duration, 0);
  EXPECT_EQ(b.communicator, "N");
  EXPECT_THAT(b.waits_on, testing::ElementsAre("a", "a"));
  EXPECT_EQ(examples[0].expected.makespan, 10);
  EXPECT_THAT(examples[0].expected.start,
              testing::ElementsAre(testing::Pair("a", 0), testing::Pair("b", 10)));
}

TEST(ParseVecTest, NamesTheBadLine) {
  EXPECT_THAT([] { ParseVec("```vec one\na | C | op | ten | - | -\n```\n"); },
              testing::ThrowsMessage<std::runtime_error>("line 2: 'ten' is not a whole number"));
  EXPECT_THAT([] { ParseVec("```vec one\n\na | C | op | 10\n```\n"); },
              testing::ThrowsMessage<std::runtime_error>("line 2: 1 fields, not 6"));
}

// Each rank has a host of its own, and no host blocks a link.
TEST(BuildVecTest, HostBlocksItsOwnRankOnly) {
  const auto examples = ParseVec(
      "```vec hosts\n"
      "a | 0.C | long | 50 | - | -\n"
      "h | 0.H | synchronise | 0 | - | a\n"
      "b | 0.N | blocked | 1 | - | -\n"
      "c | 1.N | free | 1 | - | -\n"
      "x | x.01 | free | 1 | - | -\n"
      "expect makespan=51 start: a=0 h=50 b=50 c=0 x=0\n```\n");
  const TaskGraph graph = BuildVec(examples[0]);
  EXPECT_EQ(ObserveVec(examples[0], Simulate(graph, CostsFromTags(graph))), examples[0].expected);
}

}  // namespace
}  // namespace stepsim
