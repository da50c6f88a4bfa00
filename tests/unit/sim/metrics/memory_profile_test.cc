#include "sim/metrics/memory_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// A rank with one stream; tasks take 10 ps each, one after another.
class MemoryProfileTest : public ::testing::Test {
 protected:
  static constexpr Duration kTask{10};

  MemoryProfileTest() : rank_(builder_.AddRank({0, 1})), stream_(builder_.AddStream(rank_, "c")) {}

  TaskId Add(const std::string& name, std::int32_t step = 0) {
    builder_.SetPosition({3, step});
    const WorkId work = builder_.AddWork(ComputeWork{.flops = {1}});
    return builder_.AddTask(work, builder_.AddLabel({name, Site::kNone, Phase::kBackward}),
                            stream_);
  }

  MemoryReport Peak(double slack = 1, SimTime begin = kStepBegin) {
    const TaskGraph graph = std::move(builder_).Build();
    const TaskCosts costs(graph.work_count(), TaskCost{kTask});
    const Timeline timeline = Simulate(graph, costs);
    return PeakMemory(graph, timeline, {begin, timeline.makespan}, slack);
  }

  TaskGraphBuilder builder_;
  RankId rank_;
  StreamId stream_;
};

TEST_F(MemoryProfileTest, NamesTheTaskOfThePeak) {
  builder_.AddResidentMemory(rank_, "parameters", Bytes{100});
  const TaskId a = Add("a"), b = Add("b"), c = Add("c");
  builder_.AddMemoryEvent(a, false, "activations", Bytes{10});
  builder_.AddMemoryEvent(b, false, "activations", Bytes{20});
  builder_.AddMemoryEvent(b, true, "activations", Bytes{-30});
  builder_.AddMemoryEvent(c, false, "gradients", Bytes{29});
  const MemoryReport report = Peak();
  EXPECT_EQ(report.total, Bytes{130});
  EXPECT_THAT(report.at_peak,
              ElementsAre(Pair("parameters", Bytes{100}), Pair("activations", Bytes{30}),
                          Pair("gradients", Bytes{0})));
  EXPECT_EQ(report.task, "b");
  EXPECT_EQ(report.phase, Phase::kBackward);
  EXPECT_EQ(report.microstep, 3);
  EXPECT_EQ(report.time, kTask);
}

// At equal times frees come first: 40 goes before 30 comes.
TEST_F(MemoryProfileTest, FreesBeforeAllocations) {
  const TaskId a = Add("a"), b = Add("b");
  builder_.AddMemoryEvent(b, false, "x", Bytes{30});
  builder_.AddMemoryEvent(a, false, "x", Bytes{40});
  builder_.AddMemoryEvent(a, true, "x", Bytes{-40});
  EXPECT_EQ(Peak().total, Bytes{40});
}

TEST_F(MemoryProfileTest, NoTaskWhenTheStepBeginsWithThePeak) {
  builder_.AddResidentMemory(rank_, "parameters", Bytes{7});
  Add("a");
  const MemoryReport report = Peak();
  EXPECT_EQ(report.total, Bytes{7});
  EXPECT_EQ(report.task, "");
}

// What an earlier step held is not the reported step's peak, but what it left is there.
TEST_F(MemoryProfileTest, OfTheWindowOnly) {
  const TaskId a = Add("a", 0), b = Add("b", 1);
  builder_.AddMemoryEvent(a, false, "x", Bytes{100});
  builder_.AddMemoryEvent(a, true, "x", Bytes{-95});
  builder_.AddMemoryEvent(b, false, "x", Bytes{10});
  builder_.AddMemoryEvent(b, true, "x", Bytes{-10});
  const MemoryReport report = Peak(1, kStepBegin + kTask);
  EXPECT_EQ(report.total, Bytes{15});
  EXPECT_EQ(report.task, "b");
  EXPECT_EQ(report.time, Duration::zero());
}

// Slack counts for what comes and goes; the context is no allocator's.
TEST_F(MemoryProfileTest, SlackAndContext) {
  builder_.AddResidentMemory(rank_, "parameters", Bytes{1000});
  builder_.AddResidentMemory(rank_, kContextMemory, Bytes{50});
  const TaskId a = Add("a");
  builder_.AddMemoryEvent(a, false, "activations", Bytes{200});
  const MemoryReport report = Peak(1.25);
  EXPECT_EQ(report.allocated, Bytes{1200});
  EXPECT_EQ(report.reserved, Bytes{1250});
  EXPECT_EQ(report.total, Bytes{1300});
  EXPECT_THAT(report.at_peak.back(), Pair(kAllocatorSlack, Bytes{50}));
  Bytes sum;
  for (const auto& [category, bytes] : report.at_peak) sum += bytes;
  EXPECT_EQ(sum, report.total);
}

TEST_F(MemoryProfileTest, TheHighestOfTheRanks) {
  const RankId other = builder_.AddRank({1, 1});
  builder_.AddResidentMemory(rank_, "parameters", Bytes{10});
  builder_.AddResidentMemory(other, "parameters", Bytes{11});
  Add("a");
  const MemoryReport report = Peak();
  EXPECT_EQ(report.highest_rank, 1u);
  EXPECT_EQ(report.total, Bytes{11});
  ASSERT_EQ(report.ranks.size(), 2u);
  EXPECT_EQ(report.ranks[0].total, Bytes{10});
}

TEST_F(MemoryProfileTest, ReplayTellsEveryMoment) {
  builder_.AddResidentMemory(rank_, "p", Bytes{5});
  const TaskId a = Add("a");
  builder_.AddMemoryEvent(a, false, "x", Bytes{2});
  builder_.AddMemoryEvent(a, false, "x", Bytes{3});
  builder_.AddMemoryEvent(a, true, "x", Bytes{-5});
  const TaskGraph graph = std::move(builder_).Build();
  const Timeline timeline = Simulate(graph, TaskCosts(graph.work_count(), TaskCost{kTask}));
  std::vector<std::pair<std::int64_t, bool>> moments;
  MemoryReplay(graph, timeline).Visit(rank_, [&](const MemoryMoment& moment) {
    moments.emplace_back(moment.total.value, moment.is_last_of_time);
  });
  EXPECT_THAT(moments, ElementsAre(Pair(5, false), Pair(7, false), Pair(10, true), Pair(5, true)));
}

}  // namespace
}  // namespace stepsim
