// A training step small enough to check by hand, simulated and accounted for.
//
//   us        0        100      150 180      220   250    290  310
//   rank 0    | F       | B1     | B0         |            | O  |
//     nccl                       | r1 ..====| | r0 ....====|         . waits for the peer
//   rank 1    | F       | B1         | B0         |        | O  |    = transfers
//     nccl                           | r1===|     | r0 ====|
//
// Two ranks with data parallelism; B1 takes 50 us on rank 0 and 80 us on rank 1. By hand, rank 0:
// compute 100+50+70+20 = 240 us, peer wait 220..250, exposed 250..290; rank 1: compute 270 us,
// exposed 40 us. A profiler sees r0 uncovered on rank 0 from 220 to 290.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph_builder.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/step_report.h"
#include "sim/report/writer.h"

namespace stepsim::testing {

constexpr Duration Microseconds(std::int64_t us) { return Duration{us * 1'000'000}; }

// A graph with everything that follows from it. Works are priced when they are added.
struct SimulatedStep {
  TaskGraph graph;
  TaskCosts costs{};
  Timeline timeline{};
  StepReport report{};

  Result result() const { return {graph, timeline, report}; }
};

// Builds a graph and its costs side by side.
class StepBuilder {
 public:
  TaskGraphBuilder graph;

  WorkId Price(const Work& work, Duration isolated) {
    const WorkId id = graph.AddWork(work);
    while (costs_.size() <= Index(id)) costs_.push_back({});
    costs_[id].isolated = isolated;
    return id;
  }
  // A compute kernel that is told from others by its FLOPs.
  TaskId Compute(StreamId stream, const std::string& name, Duration time, Phase phase) {
    const ComputeWork work{.compute_class = ComputeClass::kGemm,
                           .dtype = DType::kBf16,
                           .flops = {static_cast<double>(time.count())},
                           .bytes = {1000}};
    return graph.AddTask(Price(work, time), graph.AddLabel({.name = name, .phase = phase}), stream);
  }

  // The window is the whole timeline unless one is given.
  SimulatedStep Finish() && { return std::move(*this).Finish({}); }
  SimulatedStep Finish(Window window) && {
    SimulatedStep step{.graph = std::move(graph).Build(), .costs = std::move(costs_)};
    step.timeline = Simulate(step.graph, step.costs);
    IdVector<WorkId, CollectiveChoice> choices(step.graph.work_count());
    for (const WorkId work : AllIds<WorkId>(step.graph.work_count())) {
      const bool is_collective = std::holds_alternative<CollectiveWork>(step.graph.work(work));
      if (is_collective) choices[work] = {"ring", "simple"};
    }
    step.report = BuildReport(step.graph, step.costs, std::move(choices), step.timeline, {});
    if (window.end == SimTime{}) return step;
    step.report.window = window;
    for (const RankId rank : AllIds<RankId>(step.graph.rank_count())) {
      step.report.ranks[Index(rank)] =
          AccountRank(step.graph, step.costs, step.timeline, rank, window);
    }
    return step;
  }

 private:
  TaskCosts costs_;
};

// Tasks by rank of the step above.
struct TwoRankTasks {
  std::array<TaskId, 2> f, b1, b0, r1, r0, optimizer;
};

inline SimulatedStep TwoRankStep(TwoRankTasks* tasks = nullptr) {
  StepBuilder b;
  TwoRankTasks ids;
  const GroupId group =
      b.graph.AddGroup({.name = "dp", .description = "data parallel", .ranks = {0, 1}});
  const RendezvousId meet1 = b.graph.AddRendezvous();
  const RendezvousId meet0 = b.graph.AddRendezvous();
  const auto all_reduce = [&](std::int64_t bytes) {
    return CollectiveWork{
        .op = CollectiveOp::kAllReduce, .dtype = DType::kFp32, .bytes = {bytes}, .group = group};
  };
  for (std::size_t i = 0; i < 2; ++i) {
    const RankId rank = b.graph.AddRank({.global_rank = static_cast<std::int32_t>(i)});
    const StreamId compute = b.graph.AddStream(rank, "compute");
    const StreamId nccl = b.graph.AddStream(rank, "nccl dp");
    const StreamId queue = b.graph.AddStream(rank, "dp communicator", /*is_queue=*/true);
    const std::array<StreamId, 2> streams = {nccl, queue};
    const auto reduce = [&](std::int64_t bytes, Duration time, const std::string& name) {
      return b.graph.AddTask(
          b.Price(all_reduce(bytes), time),
          b.graph.AddLabel(
              {.name = name, .site = Site::kGradientReduce, .phase = Phase::kBackward}),
          streams);
    };
    ids.f[i] = b.Compute(compute, "forward", Microseconds(100), Phase::kForward);
    ids.b1[i] =
        b.Compute(compute, "layer1.backward", Microseconds(i == 0 ? 50 : 80), Phase::kBackward);
    ids.b0[i] = b.Compute(compute, "layer0.backward", Microseconds(70), Phase::kBackward);
    ids.r1[i] = reduce(4000, Microseconds(30), "all_reduce bucket 0");
    ids.r0[i] = reduce(8000, Microseconds(40), "all_reduce bucket 1");
    ids.optimizer[i] = b.Compute(compute, "optimizer", Microseconds(20), Phase::kOptimizer);
    b.graph.AddDependency(ids.b1[i], ids.r1[i]);
    b.graph.AddDependency(ids.b0[i], ids.r0[i]);
    b.graph.AddDependency(ids.r0[i], ids.optimizer[i]);
    b.graph.Join(meet1, ids.r1[i]);
    b.graph.Join(meet0, ids.r0[i]);
  }
  if (tasks != nullptr) *tasks = ids;
  return std::move(b).Finish();
}

}  // namespace stepsim::testing
