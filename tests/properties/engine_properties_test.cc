// What holds for every job: the engine against independent evaluations, on seeded random jobs from
// one task up, so that the first failure is a small one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/engine/simulate.h"
#include "sim/graph/graph_algorithms.h"
#include "sim/metrics/accounting.h"
#include "tests/support/random_graph.h"

namespace stepsim {
namespace {

constexpr int kJobs = 400;

// Calls check(job, random) for jobs of growing size; names the seed of a failure.
void ForAllJobs(const std::function<void(const RandomJob&, Random*)>& check,
                std::size_t largest = 120) {
  for (int seed = 1; seed <= kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(static_cast<std::uint64_t>(seed));
    const std::size_t size = 1 + static_cast<std::size_t>(seed) * largest / kJobs;
    check(MakeRandomJob(size, &random), &random);
    if (testing::Test::HasFailure()) return;
  }
}

std::vector<TaskId> AllTasks(const TaskGraph& graph) {
  std::vector<TaskId> tasks;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) tasks.push_back(t);
  return tasks;
}

template <class Id, class T>
std::vector<T> ToVector(const IdVector<Id, T>& items) {
  return {items.begin(), items.end()};
}

void ExpectIdentical(const Timeline& a, const Timeline& b) {
  EXPECT_EQ(ToVector(a.start), ToVector(b.start));
  EXPECT_EQ(ToVector(a.end), ToVector(b.end));
  for (std::size_t i = 0; i < a.bound_by.size(); ++i) {
    const TaskId t{static_cast<std::uint32_t>(i)};
    EXPECT_EQ(a.bound_by[t].bound(), b.bound_by[t].bound());
    if (a.bound_by[t].bound() != Bound::kBegin) {
      EXPECT_EQ(a.bound_by[t].task(), b.bound_by[t].task());
    }
  }
  for (std::size_t i = 0; i < a.meetings.size(); ++i) {
    const RendezvousId r{static_cast<std::uint32_t>(i)};
    EXPECT_EQ(a.meetings[r].transfer_start, b.meetings[r].transfer_start);
    EXPECT_EQ(a.meetings[r].last_arrival, b.meetings[r].last_arrival);
  }
  EXPECT_EQ(a.makespan, b.makespan);
  EXPECT_EQ(a.last_task, b.last_task);
}

// Full speed always, and counts how often it was asked.
class Identity : public Interference {
 public:
  void Rates(RankId, std::span<const RunningTask> running, std::span<double> rates) override {
    EXPECT_GT(running.size(), 1u) << "a task alone costs no call";
    std::fill(rates.begin(), rates.end(), 1.0);
  }
};

// Slower the more run, by an arbitrary but fixed rule; waiting members disturb less.
class Crowding : public Interference {
 public:
  void Rates(RankId, std::span<const RunningTask> running, std::span<double> rates) override {
    double load = 0;
    for (const RunningTask& r : running) load += r.is_transferring ? 0.3 : 0.1;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      rates[i] = 1 / (1 + load * (1 + 0.1 * static_cast<double>(Index(running[i].task) % 3)));
    }
  }
};

// A task starts when the last of its predecessors ends, neither later nor earlier; its cause is one
// that ended then; the members of a meeting transfer from the last arrival and end together.
void ExpectCausal(const TaskGraph& graph, const Timeline& timeline) {
  IdVector<TaskId, SimTime> earliest(graph.task_count(), kStepBegin);
  for (const TaskId t : AllTasks(graph)) {
    for (const Edge edge : graph.successors(t)) {
      earliest[edge.to()] = std::max(earliest[edge.to()], timeline.end[t]);
    }
  }
  for (const TaskId t : AllTasks(graph)) {
    EXPECT_EQ(timeline.start[t], earliest[t]);
    const BoundBy cause = timeline.bound_by[t];
    const SimTime bound = cause.bound() == Bound::kBegin ? kStepBegin : timeline.end[cause.task()];
    EXPECT_EQ(bound, timeline.start[t]);
    EXPECT_LE(TransferStart(graph, timeline, t), timeline.end[t]);
  }
  for (const RendezvousId r : AllIds<RendezvousId>(graph.rendezvous_count())) {
    SimTime last = kStepBegin;
    for (const TaskId member : graph.members(r)) {
      last = std::max(last, timeline.start[member]);
      EXPECT_EQ(timeline.end[member], timeline.end[graph.members(r).front()]);
    }
    EXPECT_EQ(timeline.meetings[r].transfer_start, last);
    EXPECT_EQ(timeline.start[timeline.meetings[r].last_arrival], last);
  }
}

TEST(EngineProperties, EveryTimeIsThatOfADirectEvaluation) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    const Timeline timeline = Simulate(built.graph, built.costs);
    const DirectTimes direct = EvaluateDirectly(job);
    EXPECT_EQ(ToVector(timeline.start), direct.start);
    EXPECT_EQ(ToVector(timeline.end), direct.end);
    EXPECT_EQ(timeline.makespan, direct.makespan);
    ExpectCausal(built.graph, timeline);
  });
}

TEST(EngineProperties, MakespanIsTheLongestPath) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    EXPECT_EQ(LongestPath(built.graph, DurationsFromTags(built.graph)),
              Simulate(built.graph, built.costs).makespan - kStepBegin);
  });
}

TEST(EngineProperties, MakespanLiesBetweenItsBounds) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    const Duration makespan = Simulate(built.graph, built.costs).makespan - kStepBegin;
    std::vector<Duration> busy(built.graph.stream_count());
    Duration sum{};
    for (const TaskId t : AllTasks(built.graph)) {
      const Duration duration = built.costs[built.graph.work_id(t)].isolated;
      sum += duration;
      for (const StreamId s : built.graph.streams(t)) busy[Index(s)] += duration;
    }
    EXPECT_LE(*std::max_element(busy.begin(), busy.end()), makespan);
    EXPECT_LE(EvaluateDirectly(job, /*with_streams=*/false).makespan - kStepBegin, makespan);
    EXPECT_LE(makespan, sum);
  });
}

TEST(EngineProperties, RaisingACostNeverShortensTheStep) {
  ForAllJobs([](const RandomJob& job, Random* random) {
    const Sketched built = BuildJob(job);
    TaskCosts costs = built.costs;
    SimTime before = Simulate(built.graph, costs).makespan;
    for (int i = 0; i < 5; ++i) {
      const auto last = static_cast<std::int64_t>(costs.size()) - 1;
      costs[WorkId{static_cast<std::uint32_t>(random->Between(0, last))}].isolated +=
          Duration(random->Between(1, 10'000'000));
      const SimTime after = Simulate(built.graph, costs).makespan;
      EXPECT_GE(after, before);
      before = after;
    }
  });
}

TEST(EngineProperties, ScalingAllCostsScalesTheStep) {
  ForAllJobs([](const RandomJob& job, Random* random) {
    Sketched built = BuildJob(job);
    const SimTime before = Simulate(built.graph, built.costs).makespan;
    const std::int64_t factor = random->Between(0, 1000);
    for (TaskCost& cost : built.costs) cost.isolated *= factor;
    EXPECT_EQ(Simulate(built.graph, built.costs).makespan - kStepBegin,
              (before - kStepBegin) * factor);
  });
}

TEST(EngineProperties, TwoRunsAreIdentical) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job), again = BuildJob(job);
    ExpectIdentical(Simulate(built.graph, built.costs), Simulate(again.graph, again.costs));
    Crowding crowding, other;
    ExpectIdentical(Simulate(built.graph, built.costs, &crowding),
                    Simulate(again.graph, again.costs, &other));
  });
}

TEST(EngineProperties, FullSpeedIsNoInterference) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    Identity identity;
    ExpectIdentical(Simulate(built.graph, built.costs, &identity),
                    Simulate(built.graph, built.costs));
  });
}

TEST(EngineProperties, InterferenceOnlyStretches) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    Crowding crowding;
    const Timeline timeline = Simulate(built.graph, built.costs, &crowding);
    ExpectCausal(built.graph, timeline);
    for (const TaskId t : AllTasks(built.graph)) {
      EXPECT_GE(timeline.end[t] - TransferStart(built.graph, timeline, t),
                built.costs[built.graph.work_id(t)].isolated);
    }
    EXPECT_GE(timeline.makespan, Simulate(built.graph, built.costs).makespan);
  });
}

TEST(EngineProperties, AStreamRunsOneTaskAtATimeInOrder) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    Crowding crowding;
    for (Interference* interference :
         {static_cast<Interference*>(nullptr), static_cast<Interference*>(&crowding)}) {
      const Timeline timeline = Simulate(built.graph, built.costs, interference);
      std::vector<SimTime> free(built.graph.stream_count(), kStepBegin);
      for (const TaskId t : AllTasks(built.graph)) {
        for (const StreamId s : built.graph.streams(t)) {
          EXPECT_GE(timeline.start[t], free[Index(s)]);
          free[Index(s)] = timeline.end[t];
        }
      }
    }
  });
}

// Only the ids change when the same tasks are added in another order.
TEST(EngineProperties, RenumberingTasksChangesNoTime) {
  ForAllJobs([](const RandomJob& job, Random* random) {
    const std::vector<std::size_t> order = MakeRandomOrder(job, random);
    const Sketched built = BuildJob(job), renumbered = BuildJob(job, order);
    const Timeline a = Simulate(built.graph, built.costs);
    const Timeline b = Simulate(renumbered.graph, renumbered.costs);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const TaskId before{static_cast<std::uint32_t>(i)};
      const TaskId after{static_cast<std::uint32_t>(order[i])};
      EXPECT_EQ(a.start[before], b.start[after]);
      EXPECT_EQ(a.end[before], b.end[after]);
    }
    EXPECT_EQ(a.makespan, b.makespan);
  });
}

TEST(EngineProperties, TheChainOfCausesTilesTheTimeBeforeATask) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    Crowding crowding;
    const Timeline timeline = Simulate(built.graph, built.costs, &crowding);
    for (const TaskId t : AllTasks(built.graph)) {
      SimTime at = kStepBegin;
      for (const PathPiece& piece : CriticalPath(built.graph, timeline, t)) {
        EXPECT_EQ(piece.begin, at);
        EXPECT_GE(piece.end, piece.begin);
        at = piece.end;
      }
      EXPECT_EQ(at, timeline.end[t]);
    }
    EXPECT_EQ(timeline.end[timeline.last_task], timeline.makespan);
  });
}

// The account checks its identity itself; here on every rank, over windows that tile the step, and
// with the two figures that are defined without segments.
TEST(EngineProperties, TheAccountOfEveryRankIsExact) {
  ForAllJobs([](const RandomJob& job, Random* random) {
    const Sketched built = BuildJob(job);
    Crowding crowding;
    const Timeline timeline = Simulate(built.graph, built.costs, &crowding);
    const Duration step = timeline.makespan - kStepBegin;
    const SimTime cut = kStepBegin + Duration(random->Between(0, step.count()));
    for (const RankActivity& activity : ObserveRanks(built.graph, timeline)) {
      const auto account = [&](SimTime begin, SimTime end) {
        return AccountWindow(built.graph, built.costs, timeline, activity, {begin, end});
      };
      const RankAccount whole = account(kStepBegin, timeline.makespan);
      const RankAccount left = account(kStepBegin, cut), right = account(cut, timeline.makespan);
      EXPECT_EQ(whole.compute + whole.contention, Measure(activity.computing));
      EXPECT_EQ(whole.communication, Measure(activity.communicating));
      EXPECT_EQ(left.exposed_total() + right.exposed_total(), whole.exposed_total());
      EXPECT_EQ(left.peer_wait + right.peer_wait, whole.peer_wait);
      EXPECT_EQ(left.bubble + right.bubble, whole.bubble);
      EXPECT_EQ(left.host + right.host, whole.host);
      EXPECT_EQ(whole.idle, Duration(0)) << "every gap has a cause";
      EXPECT_GE(whole.compute, Duration(0));
      EXPECT_GE(whole.overlap_fraction(), 0);
      EXPECT_LE(whole.overlap_fraction(), 1);
      // Resident without compute: transferring (exposed) or waiting (peer wait, pipeline bubble).
      EXPECT_LE(whole.exposed_total() + whole.peer_wait, whole.profiler_exposed);
      EXPECT_LE(whole.profiler_exposed, whole.exposed_total() + whole.peer_wait + whole.bubble);
    }
  });
}

// One more dependency, backwards: the job hangs exactly when the oracle finds a circle.
TEST(EngineProperties, HangsExactlyWhenThereIsACircle) {
  int hangs = 0;
  ForAllJobs([&](const RandomJob& job, Random* random) {
    RandomJob broken = job;
    const auto last = static_cast<std::int64_t>(job.tasks.size()) - 1;
    const auto early = static_cast<std::size_t>(random->Between(0, last));
    broken.tasks[early].after.push_back(
        static_cast<std::size_t>(random->Between(static_cast<std::int64_t>(early), last)));
    const Sketched built = BuildJob(broken);
    const bool has_circle = !LongestPath(built.graph, DurationsFromTags(built.graph)).has_value();
    EXPECT_EQ(has_circle, TopologicalOrder(built.graph).empty());
    if (has_circle) {
      ++hangs;
      EXPECT_THROW(Simulate(built.graph, built.costs), SimulationError);
    } else {
      EXPECT_NO_THROW(Simulate(built.graph, built.costs));
    }
  });
  EXPECT_GT(hangs, kJobs / 10);
  EXPECT_LT(hangs, kJobs);
}

// The oracle itself, against plain recursion without memory on tiny graphs.
Duration EndByRecursion(const TaskGraph& graph, const IdVector<WorkId, Duration>& durations,
                        TaskId task) {
  const RendezvousId r = graph.rendezvous(task);
  std::vector<TaskId> members = {task};
  if (r != kNoId<RendezvousId>) members.assign(graph.members(r).begin(), graph.members(r).end());
  Duration start{};
  for (const TaskId before : AllTasks(graph)) {
    for (const Edge edge : graph.successors(before)) {
      if (std::count(members.begin(), members.end(), edge.to()) == 0) continue;
      start = std::max(start, EndByRecursion(graph, durations, before));
    }
  }
  return start + durations[graph.work_id(task)];
}

TEST(OracleProperties, LongestPathIsThatOfPlainRecursion) {
  ForAllJobs(
      [](const RandomJob& job, Random*) {
        const Sketched built = BuildJob(job);
        const auto durations = DurationsFromTags(built.graph);
        Duration longest{};
        for (const TaskId t : AllTasks(built.graph)) {
          longest = std::max(longest, EndByRecursion(built.graph, durations, t));
        }
        EXPECT_EQ(LongestPath(built.graph, durations), longest);
      },
      /*largest=*/9);
}

TEST(OracleProperties, TopologicalOrderRespectsEveryConstraint) {
  ForAllJobs([](const RandomJob& job, Random*) {
    const Sketched built = BuildJob(job);
    const std::vector<TaskId> order = TopologicalOrder(built.graph);
    ASSERT_EQ(order.size(), built.graph.task_count());
    IdVector<TaskId, std::size_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (const TaskId t : AllTasks(built.graph)) {
      for (const Edge edge : built.graph.successors(t)) EXPECT_LT(place[t], place[edge.to()]);
    }
  });
}

// The random graphs of the benchmarks: permuting ids in memory changes no time.
TEST(WorkloadProperties, ShufflingARandomGraphKeepsItsMakespan) {
  for (const RandomShape shape : {RandomShape::kNarrow, RandomShape::kWide}) {
    const auto makespan = [&](bool is_shuffled) {
      const TaskGraph graph =
          BuildRandom({.shape = shape, .tasks = 100'000, .is_shuffled = is_shuffled});
      const TaskCosts costs = CostsFromTags(graph);
      const Timeline timeline = Simulate(graph, costs);
      EXPECT_EQ(LongestPath(graph, DurationsFromTags(graph)), timeline.makespan - kStepBegin);
      return timeline.makespan;
    };
    EXPECT_EQ(makespan(false), makespan(true));
  }
}

}  // namespace
}  // namespace stepsim
