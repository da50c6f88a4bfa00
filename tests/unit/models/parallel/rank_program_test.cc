// What a rank enqueues: order across streams, events, the launching thread. Every schedule is small
// enough to be worked by hand; its times stand beside it.
#include "models/parallel/rank_program.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

constexpr Duration kUnit = std::chrono::microseconds(1);

// Kernels last what they say, else 10; a launch 1, an event 3, a CUDA graph 2 units.
class Program {
 public:
  explicit Program(const LaunchModel& model)
      : meetings_(std::vector<std::int32_t>{0}),
        rank_(graph_, meetings_, graph_.AddRank({}), model) {}

  RankProgram& operator*() { return rank_; }
  RankProgram* operator->() { return &rank_; }

  TaskId Compute(StreamId stream, int units, const std::string& name) {
    return rank_.Launch(stream, Lasting(TaskKind::kCompute, kUnit * units), name);
  }
  TaskId Transfer(StreamId stream, int units, const std::string& name) {
    return rank_.Launch(stream, Lasting(TaskKind::kTransfer, kUnit * units), name,
                        Site::kGradientReduce);
  }

  // Start of every task by its name, in units.
  std::map<std::string, std::int64_t> Run() {
    const TaskGraph graph = std::move(graph_).Build();
    TaskCosts costs;
    for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
      const Work& work = graph.work(w);
      if (const auto* host = std::get_if<HostWork>(&work)) {
        const int units = host->launches + host->collective_calls + 3 * host->handovers +
                          2 * host->graph_launches;
        costs.push_back({kUnit * units});
      } else if (std::holds_alternative<ComputeWork>(work)) {
        costs.push_back({kUnit * 10});
      } else {
        costs.push_back({Duration{std::get<OpaqueWork>(work).tag}});
      }
    }
    const Timeline timeline = Simulate(graph, costs);
    std::map<std::string, std::int64_t> starts;
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
      starts[graph.label(t).name] = timeline.start[t].time_since_epoch() / kUnit;
    }
    starts["end"] = timeline.makespan.time_since_epoch() / kUnit;
    return starts;
  }

 private:
  TaskGraphBuilder graph_;
  Meetings meetings_;
  RankProgram rank_;
};

using Starts = std::map<std::string, std::int64_t>;

// ---- Events ----

// A stream that waits hands that on with its events, though nothing runs on it in between: k 0..10,
// r 10..20, compute waits for r, copy waits for compute.
TEST(Events, ComeAfterWhatTheirStreamWaitsFor) {
  Program program(LaunchModel{});
  const StreamId nccl = program->AddStream("nccl");
  const StreamId copy = program->AddStream("copy");
  program.Compute(program->compute(), 10, "k");
  const StreamEvent before = program->Record(program->compute());
  program->Wait(nccl, before);
  program.Transfer(nccl, 10, "r");
  program->Wait(program->compute(), program->Record(nccl));
  program->Wait(copy, program->Record(program->compute()));
  program.Compute(copy, 10, "behind");
  const StreamId other = program->AddStream("other");
  program->Wait(other, before);  // recorded before compute was made to wait
  program.Compute(other, 10, "beside");
  EXPECT_EQ(program.Run(),
            (Starts{{"k", 0}, {"r", 10}, {"behind", 20}, {"beside", 10}, {"end", 30}}));
}

// An event of the stream itself is in order anyway, and has no way to go (3 units elsewhere).
TEST(Events, OfTheStreamItselfCostNothing) {
  Program program({.has_handovers = true});
  program.Compute(program->compute(), 10, "k");
  program->Wait(program->compute(), program->Record(program->compute()));
  program.Compute(program->compute(), 10, "next");
  EXPECT_EQ(program.Run(), (Starts{{"k", 0}, {"next", 10}, {"end", 20}}));
}

// ---- CUDA_DEVICE_MAX_CONNECTIONS ----

// Launched after a GEMM that stands behind another kernel, a collective waits for nothing; with one
// connection it may start when the GEMM does, not before.
Starts CollectiveAfterGemm(std::int64_t connections) {
  Program program({.connections = connections});
  const StreamId nccl = program->AddStream("nccl");
  program.Compute(program->compute(), 10, "kernel");
  program.Compute(program->compute(), 10, "gemm");
  program.Transfer(nccl, 5, "collective");
  return program.Run();
}

TEST(Connections, OneKeepsACollectiveBehindTheGemmLaunchedBefore) {
  EXPECT_EQ(CollectiveAfterGemm(8),
            (Starts{{"kernel", 0}, {"gemm", 10}, {"collective", 0}, {"end", 20}}));
  EXPECT_EQ(CollectiveAfterGemm(1),
            (Starts{{"kernel", 0}, {"gemm", 10}, {"collective", 10}, {"end", 20}}));
}

// The reverse: the GEMM launched after a collective that is queued behind another one.
Starts GemmAfterCollective(std::int64_t connections) {
  Program program({.connections = connections});
  const StreamId nccl = program->AddStream("nccl");
  program.Transfer(nccl, 20, "first");
  program.Transfer(nccl, 20, "second");
  program.Compute(program->compute(), 10, "gemm");
  return program.Run();
}

TEST(Connections, OneKeepsAGemmBehindTheCollectiveLaunchedBefore) {
  EXPECT_EQ(GemmAfterCollective(8),
            (Starts{{"first", 0}, {"second", 20}, {"gemm", 0}, {"end", 40}}));
  EXPECT_EQ(GemmAfterCollective(1),
            (Starts{{"first", 0}, {"second", 20}, {"gemm", 20}, {"end", 40}}));
}

// What a launch inherits it hands on: k (compute, 10) <- event - r (nccl) <- queue - c (copy).
Starts Chain(std::int64_t connections) {
  Program program({.connections = connections});
  const StreamId nccl = program->AddStream("nccl");
  const StreamId copy = program->AddStream("copy");
  program.Compute(program->compute(), 10, "k");
  program->Wait(nccl, program->Record(program->compute()));
  program.Transfer(nccl, 5, "r");
  program.Compute(copy, 1, "c");
  program.Compute(program->compute(), 1, "l");
  return program.Run();
}

TEST(Connections, OneOrdersAllStreams) {
  EXPECT_EQ(Chain(1), (Starts{{"k", 0}, {"r", 10}, {"c", 10}, {"l", 10}, {"end", 15}}));
  EXPECT_EQ(Chain(3), (Starts{{"k", 0}, {"r", 10}, {"c", 0}, {"l", 10}, {"end", 15}}));
}

// Two connections: compute and copy share one (streams 0 and 2), nccl has the other. The copy
// stands behind the second kernel, the collective behind nothing.
TEST(Connections, TwoAreSharedRoundRobin) {
  Program program({.connections = 2});
  const StreamId nccl = program->AddStream("nccl");
  const StreamId copy = program->AddStream("copy");
  program.Compute(program->compute(), 10, "k");
  program.Compute(program->compute(), 10, "l");
  program.Transfer(nccl, 5, "r");
  program.Compute(copy, 1, "c");
  EXPECT_EQ(program.Run(), (Starts{{"k", 0}, {"l", 10}, {"r", 0}, {"c", 10}, {"end", 20}}));
}

// ---- Events ----

// compute 10, event 3, collective 5, event 3, compute 1
TEST(Events, TakeTheirTimeOnBothSidesOfACollective) {
  Program program({.has_handovers = true});
  const StreamId nccl = program->AddStream("nccl");
  program.Compute(program->compute(), 10, "k");
  program->Wait(nccl, program->Record(program->compute()));
  program.Transfer(nccl, 5, "r");
  program.Compute(program->compute(), 4, "l");  // does not wait
  program->Wait(program->compute(), program->Record(nccl));
  program.Compute(program->compute(), 1, "m");
  Starts starts = program.Run();
  starts.erase("event");
  EXPECT_EQ(starts, (Starts{{"k", 0}, {"r", 13}, {"l", 10}, {"m", 21}, {"end", 22}}));
}

// An event that is long over costs nothing: its way lies in the past.
TEST(Events, OfThePastAreFree) {
  Program program({.has_handovers = true});
  const StreamId nccl = program->AddStream("nccl");
  program.Compute(program->compute(), 10, "k");
  program.Transfer(nccl, 20, "busy");
  program->Wait(nccl, program->Record(program->compute()));
  program.Transfer(nccl, 5, "r");
  EXPECT_EQ(program.Run().at("r"), 20);
}

// ---- The launching thread ----

TEST(HostThread, LaunchesInProgramOrder) {
  Program program({.has_host = true});
  program.Compute(program->compute(), 10, "k");    // launched 0-1
  program.Compute(program->compute(), 10, "l");    // launched 1-2, runs behind k
  program->RunOnHost({.launches = 30}, "search");  // 2-32
  program.Compute(program->compute(), 10, "m");    // launched 32-33
  Starts starts = program.Run();
  starts.erase("launch");
  EXPECT_EQ(starts, (Starts{{"k", 1}, {"l", 11}, {"search", 2}, {"m", 33}, {"end", 43}}));
}

// Two kernels in one task take two launches; one that runs inside another takes none.
TEST(HostThread, PaysByTheKernel) {
  Program program({.has_host = true});
  program->Launch(program->compute(), ComputeWork{.kernels = 2}, "k");  // launched 0-2, runs 2-12
  program->Launch(program->compute(), ComputeWork{.kernels = 0}, "l");
  program->RunOnHost({.launches = 1}, "next");
  EXPECT_EQ(program->host_work(), (HostWork{.launches = 3}));
  EXPECT_EQ(program.Run(), (Starts{{"launch", 0}, {"k", 2}, {"l", 12}, {"next", 2}, {"end", 22}}));
}

TEST(HostThread, WaitsForEveryStreamWhenItSynchronizes) {
  Program program({.has_host = true});
  const StreamId nccl = program->AddStream("nccl");
  program.Compute(program->compute(), 10, "k");  // 1-11
  program.Transfer(nccl, 30, "r");               // 2-32
  program->Synchronize();                        // 32
  program.Compute(program->compute(), 1, "l");   // launched 32-33
  const Starts starts = program.Run();
  EXPECT_EQ(starts.at("synchronize"), 32);
  EXPECT_EQ(starts.at("l"), 33);
}

// One launch of 2 units for all kernels of a graph; the next graph waits for its own.
TEST(HostThread, LaunchesAGraphOnce) {
  Program program({.has_host = true, .captures_graphs = true});
  const StreamId nccl = program->AddStream("nccl");
  program->BeginGraph();  // 0-2
  program.Compute(program->compute(), 10, "k");
  program.Compute(program->compute(), 10, "l");
  program.Transfer(nccl, 5, "r");
  program->RunOnHost({.launches = 30}, "data");  // 2-32
  program->BeginGraph();                         // 32-34
  program.Transfer(nccl, 5, "s");
  EXPECT_EQ(program->host_work().graph_launches, 2);
  Starts starts = program.Run();
  starts.erase("graph launch");
  EXPECT_EQ(starts, (Starts{{"k", 2}, {"l", 12}, {"r", 2}, {"data", 2}, {"s", 34}, {"end", 39}}));
}

TEST(HostThread, CountsItsWorkWithoutBeingThere) {
  Program program({});
  const StreamId nccl = program->AddStream("nccl");
  program->Launch(program->compute(), ComputeWork{.kernels = 3}, "k");
  program->LaunchCollective(nccl, CollectiveWork{}, "r", Site::kGradientReduce);
  program->RunOnHost({.graph_nodes = 7}, "search");
  EXPECT_EQ(program->host_work(),
            (HostWork{.launches = 3, .graph_nodes = 7, .collective_calls = 1}));
}

// ---- Memory that the host takes ahead of the device ----

// The driver queues 1024 launches: what is launched behind 3 x 512 kernels is not allocated before
// the first 512 are begun and over, so not before the second task starts.
TEST(RankProgram, TakesMemoryNoFurtherAheadThanTheQueueIsLong) {
  TaskGraphBuilder builder;
  Meetings meetings(std::vector<std::int32_t>{0});
  RankProgram rank(builder, meetings, builder.AddRank({}), {});
  std::vector<TaskId> tasks;
  for (int i = 0; i < 4; ++i) {
    ComputeWork work;
    work.kernels = 512;
    tasks.push_back(rank.Launch(rank.compute(), work, "kernels"));
    rank.AllocateAtLaunch(tasks.back(), "outputs", Bytes{1});
  }
  const TaskGraph graph = std::move(builder).Build();
  std::vector<TaskId> taken;
  for (const MemoryEvent& event : graph.memory_events()) taken.push_back(event.task);
  EXPECT_EQ(taken, (std::vector{tasks[0], tasks[0], tasks[0], tasks[1]}));
}

}  // namespace
}  // namespace stepsim
