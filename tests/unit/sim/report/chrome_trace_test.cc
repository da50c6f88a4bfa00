// Every rule that Perfetto or Holistic Trace Analysis (HTA) makes is one test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "sim/metrics/intervals.h"
#include "sim/report/writer.h"
#include "tests/support/timeline_fixture.h"

namespace stepsim {
namespace {

using nlohmann::json;
using testing::Microseconds;
using testing::SimulatedStep;
using testing::StepBuilder;
using testing::TwoRankStep;
using testing::TwoRankTasks;

std::string TraceText(const SimulatedStep& step, TraceView view = TraceView::kBoth) {
  std::string text;
  Result result = step.result();
  result.trace_view = view;
  WriteChromeTrace(result, [&text](std::string_view piece) { text += piece; });
  return text;
}

json Trace(const SimulatedStep& step, TraceView view = TraceView::kBoth) {
  return json::parse(TraceText(step, view));
}

std::vector<json> Select(const json& trace, const std::string& phase, const std::string& category) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase && event.value("cat", "") == category) events.push_back(event);
  }
  return events;
}

std::vector<json> Named(const json& trace, const std::string& name) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == name) events.push_back(event);
  }
  return events;
}

Duration FromTrace(const json& microseconds) {
  return Duration{std::llround(microseconds.get<double>() * 1e6)};
}

Interval SpanOf(const json& event) {
  const SimTime begin{FromTrace(event.at("ts"))};
  return {begin, begin + FromTrace(event.at("dur"))};
}

// What HTA does with one rank: kernels are the events with args.stream; communication is told by
// its name; exposed is the union of communication without the union of compute.
struct ProfilerView {
  Duration communication{};
  Duration exposed{};
};

// Processes and threads count from 1.
int PidOf(std::size_t rank) { return static_cast<int>(rank) + 1; }
constexpr int kComputeStream = 1;
constexpr int kNcclStream = 2;

ProfilerView ReadLikeHta(const json& trace, std::size_t rank) {
  std::vector<Interval> communication, compute;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("pid") != PidOf(rank)) continue;
    if (!event.contains("args") || !event.at("args").contains("stream")) continue;
    const std::string name = event.at("name");
    const bool is_communication = name.rfind("nccl", 0) == 0;
    const bool is_memory = std::regex_search(name, std::regex("Memcpy|Memset|Sync|dma"));
    if (is_communication) {
      communication.push_back(SpanOf(event));
    } else if (!is_memory) {
      compute.push_back(SpanOf(event));
    }
  }
  ProfilerView view;
  const std::vector<Interval> busy = Union(std::move(compute));
  for (const Interval& interval : Union(std::move(communication))) {
    view.communication += interval.end - interval.begin;
    view.exposed += Measure(Subtract(interval, busy));
  }
  return view;
}

TEST(ChromeTrace, IsAnObjectThatHoldsTheEvents) {
  const json trace = Trace(TwoRankStep());
  EXPECT_TRUE(trace.at("traceEvents").is_array());
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
}

TEST(ChromeTrace, ExposedTimeReadLikeAProfilerIsOurs) {
  const SimulatedStep step = TwoRankStep();
  const json trace = Trace(step);
  // By hand, see the fixture.
  EXPECT_EQ(step.report.ranks[0].profiler_exposed, Microseconds(70));
  EXPECT_EQ(ReadLikeHta(trace, 0).exposed, Microseconds(70));
  EXPECT_EQ(ReadLikeHta(trace, 0).communication, Microseconds(60 + 70));
  EXPECT_EQ(step.report.ranks[1].profiler_exposed, Microseconds(40));
  EXPECT_EQ(ReadLikeHta(trace, 1).exposed, Microseconds(40));
  EXPECT_EQ(ReadLikeHta(trace, 1).communication, Microseconds(70));
}

TEST(ChromeTrace, ProcessesAreRanksAndThreadsAreStreams) {
  const json trace = Trace(TwoRankStep());
  std::set<int> pids;
  for (const json& event : Named(trace, "process_name")) {
    EXPECT_EQ(event.at("ph"), "M");
    const int pid = event.at("pid");
    EXPECT_EQ(event.at("args").at("name"), "rank " + std::to_string(pid - 1));
    pids.insert(pid);
  }
  EXPECT_EQ(pids, (std::set<int>{PidOf(0), PidOf(1)}));
  std::map<int, std::string> threads;
  for (const json& event : Named(trace, "thread_name")) {
    if (event.at("pid") == PidOf(0)) threads[event.at("tid")] = event.at("args").at("name");
  }
  // The queue of the communicator is no stream of its own: it has no thread.
  EXPECT_EQ(threads,
            (std::map<int, std::string>{
                {1, "stream 1 compute"}, {2, "stream 2 nccl dp"}, {4, "step"}, {5, "exposed"}}));
  EXPECT_EQ(Named(trace, "process_sort_index").size(), 2u);
  EXPECT_EQ(Named(trace, "thread_sort_index").size(), Named(trace, "thread_name").size());
}

TEST(ChromeTrace, EveryKernelHasItsStreamDeviceAndOwnCorrelation) {
  const SimulatedStep step = TwoRankStep();
  const json trace = Trace(step);
  std::set<std::int64_t> correlations;
  const std::vector<json> kernels = Select(trace, "X", "kernel");
  EXPECT_EQ(kernels.size(), step.graph.task_count());  // a task on two streams is shown once
  for (const json& kernel : kernels) {
    EXPECT_GT(kernel.at("args").at("stream").get<int>(), 0);
    EXPECT_EQ(kernel.at("args").at("stream"), kernel.at("tid"));
    EXPECT_EQ(PidOf(kernel.at("args").at("device")), kernel.at("pid"));
    EXPECT_GT(kernel.at("args").at("correlation").get<int>(), 0);
    correlations.insert(kernel.at("args").at("correlation").get<std::int64_t>());
  }
  EXPECT_EQ(correlations.size(), kernels.size());
}

TEST(ChromeTrace, TimesAreExactToThePicosecond) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId stream = b.graph.AddStream(rank, "compute");
  b.Compute(stream, "first", Duration{1}, Phase::kForward);
  b.Compute(stream, "second", Duration{12'345'678'901}, Phase::kForward);
  const std::string text = TraceText(std::move(b).Finish());
  EXPECT_THAT(text, ::testing::HasSubstr("\"ts\":0.000000,\"dur\":0.000001"));
  EXPECT_THAT(text, ::testing::HasSubstr("\"ts\":0.000001,\"dur\":12345.678901"));
}

TEST(ChromeTrace, KernelsSayWhatTheyWaitedFor) {
  TwoRankTasks tasks;
  const json trace = Trace(TwoRankStep(&tasks));
  const json args = Named(trace, "optimizer")[0].at("args");
  EXPECT_EQ(args.at("bound_by"), "dependency");
  EXPECT_EQ(args.at("after").get<std::size_t>(), Index(tasks.r0[0]) + 1);
  EXPECT_EQ(args.at("phase"), "optimizer");
  EXPECT_FALSE(args.contains("microstep"));  // 0
  const json first = Named(trace, "forward")[0].at("args");
  EXPECT_FALSE(first.contains("bound_by"));  // its place on the stream says it
  EXPECT_EQ(first.at("flops"), 100'000'000);
  EXPECT_EQ(first.at("bytes"), 1000);
}

// Two steps of two micro-steps: what the report is about is the second step, 40..80 us.
TEST(ChromeTrace, OfSeveralStepsTheReportedOneIsShown) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId stream = b.graph.AddStream(rank, "compute");
  for (int step = 0; step < 2; ++step) {
    for (int microstep = 0; microstep < 2; ++microstep) {
      b.graph.SetPosition({.microstep = microstep, .step = step});
      b.Compute(stream, "kernel", Microseconds(20), Phase::kForward);
    }
  }
  const json trace = Trace(std::move(b).Finish());
  const std::vector<json> kernels = Named(trace, "kernel");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(FromTrace(kernels[0].at("ts")), Duration::zero());
  EXPECT_FALSE(kernels[0].at("args").contains("microstep"));
  EXPECT_EQ(FromTrace(kernels[1].at("ts")), Microseconds(20));
  EXPECT_EQ(kernels[1].at("args").at("microstep"), 1);
  EXPECT_EQ(FromTrace(Named(trace, "ProfilerStep#0")[0].at("dur")), Microseconds(40));
}

TEST(ChromeTrace, CollectivesCarryTheProfilersArguments) {
  const json trace = Trace(TwoRankStep());
  const std::vector<json> collectives =
      Named(trace, "ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)");
  ASSERT_EQ(collectives.size(), 4u);  // two buckets on two ranks
  const json& args = collectives[1].at("args");
  EXPECT_EQ(args.at("Collective name"), "allreduce");
  EXPECT_EQ(args.at("In msg nelems"), 2000);  // 8000 bytes of fp32
  EXPECT_EQ(args.at("Out msg nelems"), 2000);
  EXPECT_EQ(args.at("Group size"), 2);
  EXPECT_EQ(args.at("dtype"), "Float");
  EXPECT_EQ(args.at("Process Group Name"), "dp");
  EXPECT_EQ(args.at("Process Group Description"), "data parallel");
  EXPECT_EQ(args.at("Process Group Ranks"), "[0, 1]");
  EXPECT_EQ(args.at("Seq"), 1);  // the second call of its group
  EXPECT_EQ(args.at("bytes"), 8000);
  EXPECT_EQ(args.at("label"), "all_reduce bucket 1");
  EXPECT_EQ(args.at("site"), "gradient_reduce");
  EXPECT_EQ(args.at("bound_by"), "dependency");
  EXPECT_EQ(FromTrace(args.at("transfer_start")), Microseconds(250));  // resident from 220 on
  EXPECT_EQ(FromTrace(collectives[1].at("ts")), Microseconds(220));
}

TEST(ChromeTrace, OneStepAnnotationPerRankCoversTheStep) {
  const json trace = Trace(TwoRankStep());
  const std::vector<json> steps = Select(trace, "X", "user_annotation");
  ASSERT_EQ(steps.size(), 2u);
  for (const json& step : steps) {
    EXPECT_EQ(step.at("name"), "ProfilerStep#0");
    EXPECT_EQ(FromTrace(step.at("ts")), Duration::zero());
    EXPECT_EQ(FromTrace(step.at("dur")), Microseconds(310));
  }
  EXPECT_NE(steps[0].at("pid"), steps[1].at("pid"));
}

TEST(ChromeTrace, ArrowsLeadFromTheLastGradientToItsCollective) {
  TwoRankTasks tasks;
  const json trace = Trace(TwoRankStep(&tasks));
  const auto end_of_arrow = [&](const std::string& phase, TaskId collective) {
    for (const json& event : Select(trace, phase, "flow")) {
      if (event.at("id").get<std::size_t>() == Index(collective)) return event;
    }
    return json();
  };
  const json from = end_of_arrow("s", tasks.r0[1]);
  EXPECT_EQ(from.at("pid"), PidOf(1));
  EXPECT_EQ(from.at("tid"), kComputeStream);
  EXPECT_EQ(FromTrace(from.at("ts")),
            Microseconds(250) - Duration{1000});  // inside layer0.backward
  const json to = end_of_arrow("f", tasks.r0[1]);
  EXPECT_EQ(to.at("bp"), "e");  // binds to the slice around it
  EXPECT_EQ(to.at("tid"), kNcclStream);
  EXPECT_EQ(FromTrace(to.at("ts")), Microseconds(250) + Duration{1000});
  EXPECT_EQ(Select(trace, "s", "flow").size(), 4u);
  EXPECT_EQ(Select(trace, "f", "flow").size(), 4u);
}

TEST(ChromeTrace, ExposedTrackNamesTheSiteAndReadersIgnoreIt) {
  const SimulatedStep step = TwoRankStep();
  const json trace = Trace(step);
  std::map<std::pair<int, std::string>, Duration> sums;
  for (const json& slice : Select(trace, "X", "exposed")) {
    EXPECT_FALSE(slice.contains("args"));
    sums[{slice.at("pid"), slice.at("name")}] += FromTrace(slice.at("dur"));
  }
  const std::map<std::pair<int, std::string>, Duration> expected = {
      {{PidOf(0), "gradient_reduce"}, Microseconds(40)},
      {{PidOf(0), "peer_wait"}, Microseconds(30)},
      {{PidOf(1), "gradient_reduce"}, Microseconds(40)}};
  EXPECT_EQ(sums, expected);
  EXPECT_EQ(step.report.ranks[0].exposed_total(), Microseconds(40));
}

// NCCL's view: the kernels as they are resident, and nothing that a profiler does not have.
TEST(ChromeTrace, NcclsViewHasNoAccount) {
  const SimulatedStep step = TwoRankStep();
  const json trace = Trace(step, TraceView::kNccl);
  EXPECT_TRUE(Select(trace, "X", "exposed").empty());
  EXPECT_EQ(Select(trace, "X", "kernel"), Select(Trace(step), "X", "kernel"));
  for (const json& name : Named(trace, "thread_name")) {
    EXPECT_NE(name.at("args").at("name"), "exposed");
  }
}

// By hand (fixture): rank 0 waits from 150 to 180 and from 220 to 250 us, rank 1 for nobody.
TEST(ChromeTrace, TheTransfersViewHasTheWaitApart) {
  const SimulatedStep step = TwoRankStep();
  const json trace = Trace(step, TraceView::kTransfer);
  const std::vector<json> waits = Select(trace, "X", "wait");
  ASSERT_EQ(waits.size(), 2u);
  const std::vector<std::pair<Duration, Duration>> expected = {
      {Microseconds(150), Microseconds(180)}, {Microseconds(220), Microseconds(250)}};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(waits[i].at("pid"), PidOf(0));
    EXPECT_EQ(waits[i].at("tid"), kNcclStream);
    EXPECT_FALSE(waits[i].at("args").contains("stream"));
    EXPECT_EQ(SpanOf(waits[i]).begin, SimTime{expected[i].first});
    EXPECT_EQ(SpanOf(waits[i]).end, SimTime{expected[i].second});
  }
  EXPECT_EQ(waits[0].at("args").at("for"), "all_reduce bucket 0");
  EXPECT_EQ(ReadLikeHta(trace, 0).communication, Microseconds(30 + 40));
  EXPECT_EQ(Select(trace, "X", "exposed"), Select(Trace(step), "X", "exposed"));
}

TEST(ChromeTrace, CountsTheBytesInFlightFromTheTransferOn) {
  const json trace = Trace(TwoRankStep());
  std::vector<std::pair<Duration, int>> values;
  for (const json& event : Named(trace, "communication in flight")) {
    EXPECT_EQ(event.at("ph"), "C");
    if (event.at("pid") != PidOf(0)) continue;
    values.emplace_back(FromTrace(event.at("ts")), event.at("args").at("bytes").get<int>());
  }
  const std::vector<std::pair<Duration, int>> expected = {{Microseconds(180), 4000},
                                                          {Microseconds(210), 0},
                                                          {Microseconds(250), 8000},
                                                          {Microseconds(290), 0}};
  EXPECT_EQ(values, expected);
}

TEST(ChromeTrace, HostTasksAreNoKernels) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId host = b.graph.AddStream(rank, "host");
  const StreamId compute = b.graph.AddStream(rank, "compute");
  b.graph.AddTask(b.Price(HostWork{.graph_nodes = 9}, Microseconds(5)),
                  b.graph.AddLabel({.name = "walk \"it\""}), host);
  const TaskId launch = b.graph.AddTask(b.Price(HostWork{.launches = 1}, Microseconds(5)),
                                        b.graph.AddLabel({.name = "launch"}), host);
  b.graph.AddDependency(launch, b.Compute(compute, "kernel", Microseconds(1), Phase::kForward));
  const json trace = Trace(std::move(b).Finish());
  const std::vector<json> operators = Select(trace, "X", "cpu_op");
  ASSERT_EQ(operators.size(), 1u);
  EXPECT_EQ(operators[0].at("name"), "walk \"it\"");
  EXPECT_FALSE(operators[0].contains("args"));
  // HTA pairs a launch with its kernel by their correlation.
  const std::vector<json> launches = Select(trace, "X", "cuda_runtime");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].at("name"), "cudaLaunchKernel");
  EXPECT_FALSE(launches[0].at("args").contains("stream"));
  EXPECT_EQ(launches[0].at("args").at("correlation"),
            Named(trace, "kernel")[0].at("args").at("correlation"));
  EXPECT_EQ(launches[0].at("args").at("launches"), "kernel");
  std::map<std::string, int> order;
  for (const json& event : Named(trace, "thread_sort_index")) {
    for (const json& name : Named(trace, "thread_name")) {
      if (name.at("tid") != event.at("tid")) continue;
      order[name.at("args").at("name")] = event.at("args").at("sort_index");
    }
  }
  EXPECT_LT(order.at("exposed"), order.at("host"));  // the host is no stream of the GPU
  EXPECT_LT(order.at("host"), order.at("stream 2 compute"));
}

// A late launch may be what the collective waited for, but the arrow shows where its data came
// from.
TEST(ChromeTrace, ArrowsComeFromTheDataNotFromTheHost) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId host = b.graph.AddStream(rank, "host");
  const StreamId compute = b.graph.AddStream(rank, "compute");
  const StreamId nccl = b.graph.AddStream(rank, "nccl");
  const TaskId launch = b.graph.AddTask(b.Price(HostWork{.launches = 1}, Microseconds(50)),
                                        b.graph.AddLabel({.name = "launch"}), host);
  const TaskId gradient = b.Compute(compute, "gradient", Microseconds(10), Phase::kBackward);
  const TaskId transfer =
      b.graph.AddTask(b.Price(OpaqueWork{.kind = TaskKind::kTransfer}, Microseconds(7)),
                      b.graph.AddLabel({.name = "reduce", .site = Site::kGradientReduce}), nccl);
  b.graph.AddDependency(launch, transfer);
  b.graph.AddDependency(gradient, transfer);
  const json trace = Trace(std::move(b).Finish());
  const std::vector<json> arrows = Select(trace, "s", "flow");
  ASSERT_EQ(arrows.size(), 1u);
  EXPECT_EQ(arrows[0].at("tid"), Named(trace, "gradient")[0].at("tid"));
}

TEST(ChromeTrace, OneRankSaysWhichRankItIs) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({.global_rank = 3, .stands_for = 16, .name = "pp 1"});
  b.Compute(b.graph.AddStream(rank, "compute"), "kernel", Microseconds(1), Phase::kForward);
  SimulatedStep step = std::move(b).Finish();
  step.report.context.gpus = 16;
  const json trace = Trace(step);
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 3);
  EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 16);
  EXPECT_EQ(Named(trace, "process_name")[0].at("args").at("name"),
            "rank 3, pp 1 (stands for 16 ranks)");
  EXPECT_FALSE(Trace(TwoRankStep()).contains("distributedInfo"));
}

TEST(ChromeTrace, NamesAreAlwaysReadable) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId stream = b.graph.AddStream(rank, "a \\ b");
  b.Compute(stream, "tab\t\"quoted\"", Microseconds(1), Phase::kForward);
  b.Compute(stream, "broken \xff utf-8", Microseconds(2), Phase::kForward);
  b.Compute(stream, std::string(200'000, 'x'), Microseconds(3), Phase::kForward);
  const json trace = Trace(std::move(b).Finish());
  EXPECT_EQ(Named(trace, "tab\t\"quoted\"").size(), 1u);
  EXPECT_EQ(Named(trace, "broken \xef\xbf\xbd utf-8").size(), 1u);  // U+FFFD
  EXPECT_EQ(Named(trace, std::string(200'000, 'x')).size(), 1u);
}

// Readers count everything in the file, so a task that reaches into the step is cut.
TEST(ChromeTrace, ShowsOnlyTheReportedStep) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId compute = b.graph.AddStream(rank, "compute");
  const StreamId nccl = b.graph.AddStream(rank, "nccl");
  b.Compute(compute, "before", Microseconds(100), Phase::kForward);
  b.Compute(compute, "within", Microseconds(50), Phase::kForward);
  const GroupId group = b.graph.AddGroup({.name = "dp", .description = "", .ranks = {0, 1}});
  const CollectiveWork gather{.op = CollectiveOp::kAllGather, .bytes = {64}, .group = group};
  const LabelId label = b.graph.AddLabel({.name = "gather", .site = Site::kParameterGather});
  b.graph.AddTask(b.Price(gather, Microseconds(90)), label, nccl);
  b.graph.AddTask(b.Price(gather, Microseconds(90)), label, nccl);
  const SimulatedStep step =
      std::move(b).Finish({SimTime{Microseconds(100)}, SimTime{Microseconds(170)}});
  const json trace = Trace(step);
  EXPECT_TRUE(Named(trace, "before").empty());
  ASSERT_EQ(Named(trace, "within").size(), 1u);
  EXPECT_EQ(FromTrace(Named(trace, "within")[0].at("ts")), Duration::zero());
  // The second gather runs 90..180: 70 us of it lie in the step, 20 of them without compute.
  const std::vector<json> kernels = Select(trace, "X", "kernel");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(FromTrace(kernels[1].at("dur")), Microseconds(70));
  EXPECT_EQ(kernels[1].at("args").at("Seq"), 1);
  EXPECT_EQ(ReadLikeHta(trace, 0).exposed, Microseconds(20));
  EXPECT_EQ(step.report.ranks[0].profiler_exposed, Microseconds(20));
}

TEST(ChromeTrace, TransfersOfHandBuiltGraphsAreCommunication) {
  StepBuilder b;
  const RankId rank = b.graph.AddRank({});
  const StreamId stream = b.graph.AddStream(rank, "nccl");
  b.graph.AddTask(b.Price(OpaqueWork{.kind = TaskKind::kTransfer}, Microseconds(7)),
                  b.graph.AddLabel({.name = "reduce", .site = Site::kOptimizer}), stream);
  const json trace = Trace(std::move(b).Finish());
  EXPECT_EQ(Named(trace, "nccl:reduce").size(), 1u);
  EXPECT_EQ(ReadLikeHta(trace, 0).exposed, Microseconds(7));
}

TEST(ChromeTrace, AnEmptyGraphIsAnEmptyTrace) {
  const json trace = Trace(SimulatedStep{});
  EXPECT_TRUE(trace.at("traceEvents").empty());
}

// A random step on several ranks: every rank joins the same collectives in the same order, after
// compute kernels whose times differ from rank to rank.
SimulatedStep RandomStep(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&random](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  StepBuilder b;
  const int ranks = 1 + draw(4);
  const int collectives = 1 + draw(8);
  std::vector<RendezvousId> meetings;
  for (int c = 0; ranks > 1 && c < collectives; ++c) meetings.push_back(b.graph.AddRendezvous());
  ProcessGroup everybody{.name = "world", .description = "", .ranks = {}};
  for (int r = 0; r < ranks; ++r) everybody.ranks.push_back(r);
  const GroupId group = b.graph.AddGroup(everybody);
  std::vector<Duration> times;
  for (int c = 0; c < collectives; ++c) times.push_back(Duration{draw(3) * 1'234'567 + draw(1000)});
  for (int r = 0; r < ranks; ++r) {
    const RankId rank = b.graph.AddRank({.global_rank = r});
    const StreamId compute = b.graph.AddStream(rank, "compute");
    const std::array<StreamId, 2> nccl = {b.graph.AddStream(rank, "nccl a"),
                                          b.graph.AddStream(rank, "nccl b")};
    for (int c = 0; c < collectives; ++c) {
      const TaskId kernel =
          b.Compute(compute, "kernel", Duration{draw(4) * 700'001}, Phase::kForward);
      const CollectiveWork work{.bytes = {100 + c}, .group = group};
      const TaskId transfer =
          b.graph.AddTask(b.Price(work, times[static_cast<std::size_t>(c)]),
                          b.graph.AddLabel({.name = "transfer", .site = Site::kTensorParallel}),
                          nccl[static_cast<std::size_t>(c % 2)]);
      if (ranks > 1) b.graph.Join(meetings[static_cast<std::size_t>(c)], transfer);
      b.graph.AddDependency(kernel, transfer);
      if ((seed + static_cast<unsigned>(c)) % 3 == 0) {
        b.graph.AddDependency(
            transfer, b.Compute(compute, "consumer", Duration{draw(3) * 300'007}, Phase::kForward));
      }
    }
  }
  return std::move(b).Finish();
}

// In every view slices of a track follow each other, and what waits and what moves is what is
// resident.
TEST(ChromeTrace, SlicesOfATrackDoNotOverlap) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const SimulatedStep step = RandomStep(seed);
    for (const TraceView view : {TraceView::kBoth, TraceView::kNccl, TraceView::kTransfer}) {
      const json trace = Trace(step, view);
      std::map<std::pair<int, int>, std::vector<Interval>> tracks;
      for (const json& event : trace.at("traceEvents")) {
        if (event.at("ph") != "X") continue;
        tracks[{event.at("pid"), event.at("tid")}].push_back(SpanOf(event));
      }
      for (auto& [track, spans] : tracks) {
        std::sort(spans.begin(), spans.end(), [](const Interval& a, const Interval& b) {
          return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
        for (std::size_t i = 1; i < spans.size(); ++i) {
          ASSERT_GE(spans[i].begin, spans[i - 1].end) << seed << " " << track.first;
        }
      }
      for (std::size_t rank = 0; rank < step.report.ranks.size(); ++rank) {
        std::vector<Interval> waits;
        for (const json& wait : Select(trace, "X", "wait")) {
          if (wait.at("pid") == PidOf(rank)) waits.push_back(SpanOf(wait));
        }
        EXPECT_EQ(waits.empty() || view == TraceView::kTransfer, true);
        for (const json& slice : Select(trace, "X", "kernel")) {
          const bool is_transfer = slice.at("args").contains("site");
          if (slice.at("pid") == PidOf(rank) && is_transfer) waits.push_back(SpanOf(slice));
        }
        ASSERT_EQ(Measure(Union(std::move(waits))), step.report.ranks[rank].communication) << seed;
      }
    }
  }
}

TEST(ChromeTrace, AgreesWithTheAccountOnRandomSteps) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const SimulatedStep step = RandomStep(seed);
    const json trace = Trace(step);
    for (std::size_t rank = 0; rank < step.report.ranks.size(); ++rank) {
      const RankAccount& account = step.report.ranks[rank];
      const ProfilerView view = ReadLikeHta(trace, rank);
      ASSERT_EQ(view.exposed, account.profiler_exposed) << "seed " << seed << " rank " << rank;
      ASSERT_EQ(view.communication, account.communication) << "seed " << seed;
      Duration exposed{}, peer_wait{}, bubble{};
      for (const json& slice : Select(trace, "X", "exposed")) {
        if (slice.at("pid") != PidOf(rank)) continue;
        const json& name = slice.at("name");
        Duration& sum = name == "peer_wait" ? peer_wait : name == "bubble" ? bubble : exposed;
        sum += FromTrace(slice.at("dur"));
      }
      ASSERT_EQ(exposed, account.exposed_total()) << "seed " << seed;
      ASSERT_EQ(peer_wait, account.peer_wait) << "seed " << seed;
      ASSERT_EQ(bubble, account.bubble) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace stepsim
