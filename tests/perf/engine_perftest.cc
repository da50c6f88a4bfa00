// How fast is the engine, beside the floors on the same graph? Not a timed test: it records ratios.
//   engine_perftest --benchmark_out=engine.json        (ns_per_task is the figure to compare)
#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>

#include "sim/base/check.h"
#include "sim/engine/simulate.h"
#include "sim/graph/graph_algorithms.h"
#include "tests/perf/bare_loops.h"
#include "tests/support/sketch.h"
#include "tests/support/workloads.h"

namespace stepsim {
namespace {

using GraphMaker = TaskGraph (*)();

template <int kRanks>
TaskGraph Step() {
  return BuildStep({.ranks = kRanks, .layers = 96});
}

template <RandomShape kShape, std::size_t kTasks, bool kShuffled = false>
TaskGraph Rand() {
  return BuildRandom({.shape = kShape, .tasks = kTasks, .is_shuffled = kShuffled});
}

void SetPerTask(benchmark::State& state, std::size_t tasks) {
  state.counters["ns_per_task"] = benchmark::Counter(
      static_cast<double>(tasks) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["tasks"] = static_cast<double>(tasks);
}

void Engine(benchmark::State& state, GraphMaker make) {
  const TaskGraph graph = make();
  const TaskCosts costs = CostsFromTags(graph);
  for (auto _ : state) benchmark::DoNotOptimize(Simulate(graph, costs).makespan);
  SetPerTask(state, graph.task_count());
}

void BareHeapLoop(benchmark::State& state, GraphMaker make) {
  const TaskGraph graph = make();
  const BareGraph bare = ToBare(graph);
  for (auto _ : state) benchmark::DoNotOptimize(RunBareHeapLoop(bare));
  SetPerTask(state, graph.task_count());
}

void Sweep(benchmark::State& state, GraphMaker make) {
  const TaskGraph graph = make();
  const BareSweep sweep = ToSweep(ToBare(graph));
  for (auto _ : state) benchmark::DoNotOptimize(RunSweep(sweep));
  SetPerTask(state, graph.task_count());
}

void BoostLongestPath(benchmark::State& state, GraphMaker make) {
  const TaskGraph graph = make();
  const auto durations = DurationsFromTags(graph);
  for (auto _ : state) benchmark::DoNotOptimize(LongestPath(graph, durations));
  SetPerTask(state, graph.task_count());
}

void Build(benchmark::State& state, GraphMaker make) {
  std::size_t tasks = 0;
  for (auto _ : state) tasks = make().task_count();
  SetPerTask(state, tasks);
}

// All programs over one graph must agree before their speed means anything.
void CheckAgreement(GraphMaker make) {
  const TaskGraph graph = make();
  const BareGraph bare = ToBare(graph);
  const auto makespan =
      Simulate(graph, CostsFromTags(graph)).makespan.time_since_epoch().count();
  SIM_CHECK(makespan == RunBareHeapLoop(bare), "the engine and the bare loop disagree");
  SIM_CHECK(makespan == RunSweep(ToSweep(bare)), "the engine and the sweep disagree");
}

struct Case {
  std::string name;
  GraphMaker make;
};

const Case kCases[] = {
    {"step_1x96", Step<1>},
    {"step_8x96", Step<8>},
    {"step_64x96", Step<64>},
    {"step_274x96_1e6", Step<274>},
    {"step_1024x96", Step<1024>},
    {"step_2740x96_1e7", Step<2740>},
    {"rand_narrow_1e6", Rand<RandomShape::kNarrow, 1'000'000>},
    {"rand_narrow_1e7", Rand<RandomShape::kNarrow, 10'000'000>},
    {"rand_wide_1e6", Rand<RandomShape::kWide, 1'000'000>},
    {"rand_wide_1e7", Rand<RandomShape::kWide, 10'000'000>},
    {"rand_narrow_shuffled_1e6", Rand<RandomShape::kNarrow, 1'000'000, true>},
    {"rand_wide_shuffled_1e6", Rand<RandomShape::kWide, 1'000'000, true>},
};

void RegisterAll() {
  for (const Case& c : kCases) {
    const auto add = [&](const char* program, void (*run)(benchmark::State&, GraphMaker)) {
      benchmark::RegisterBenchmark((c.name + "/" + program).c_str(), run, c.make)
          ->Unit(benchmark::kMillisecond);
    };
    add("engine", Engine);
    add("bare_heap_loop", BareHeapLoop);
    add("sweep", Sweep);
    add("build", Build);
  }
  benchmark::RegisterBenchmark("rand_narrow_1e6/boost_longest_path", BoostLongestPath,
                               Rand<RandomShape::kNarrow, 1'000'000>)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace stepsim

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const stepsim::GraphMaker make :
       {stepsim::Step<8>, stepsim::Rand<stepsim::RandomShape::kNarrow, 100'000>,
        stepsim::Rand<stepsim::RandomShape::kWide, 200'000>,
        stepsim::Rand<stepsim::RandomShape::kWide, 200'000, true>}) {
    stepsim::CheckAgreement(make);
  }
  stepsim::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
