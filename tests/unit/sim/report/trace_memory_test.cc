// The counter of memory: one event at each moment of the window at which the use has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph_builder.h"
#include "sim/metrics/build_report.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

using Json = nlohmann::json;

std::vector<Json> MemoryEvents(const Result& result) {
  std::string text;
  WriteChromeTrace(result, [&](std::string_view part) { text += part; });
  std::vector<Json> events;
  const Json trace = Json::parse(text);
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "C" && event["name"] == "memory") events.push_back(event);
  }
  return events;
}

TEST(TraceMemory, StacksCategoriesOverTime) {
  TaskGraphBuilder builder;
  const RankId rank = builder.AddRank({0, 1});
  const StreamId stream = builder.AddStream(rank, "compute");
  builder.AddResidentMemory(rank, "parameters", Bytes{100});
  builder.AddResidentMemory(rank, "buckets", Bytes{0});  // never used: left out
  const WorkId work = builder.AddWork(ComputeWork{.flops = {1}});
  const TaskId a = builder.AddTask(work, builder.AddLabel({"a"}), stream);
  const TaskId b = builder.AddTask(work, builder.AddLabel({"b"}), stream);
  builder.AddMemoryEvent(a, true, "activations", Bytes{7});
  builder.AddMemoryEvent(b, true, "activations", Bytes{-7});
  const TaskGraph graph = std::move(builder).Build();
  const TaskCosts costs(graph.work_count(), TaskCost{Duration{2'000'000}});  // 2 us each
  const Timeline timeline = Simulate(graph, costs);
  const StepReport report = BuildReport(graph, costs, {}, timeline, {});
  const std::vector<Json> events = MemoryEvents({graph, timeline, report});
  ASSERT_EQ(events.size(), 3u);
  const std::vector<std::pair<double, int>> expected = {{0, 0}, {2, 7}, {4, 0}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i]["ts"], expected[i].first);
    EXPECT_EQ(events[i]["args"], Json({{"parameters", 100}, {"activations", expected[i].second}}));
  }
}

TEST(TraceMemory, NothingWithoutMemory) {
  TaskGraphBuilder builder;
  const StreamId stream = builder.AddStream(builder.AddRank({0, 1}), "compute");
  builder.AddTask(builder.AddWork(ComputeWork{.flops = {1}}), builder.AddLabel({"a"}), stream);
  const TaskGraph graph = std::move(builder).Build();
  const TaskCosts costs(graph.work_count(), TaskCost{Duration{10}});
  const Timeline timeline = Simulate(graph, costs);
  EXPECT_TRUE(MemoryEvents({graph, timeline, BuildReport(graph, costs, {}, timeline, {})}).empty());
}

}  // namespace
}  // namespace stepsim
