// How fast is the engine, beside the floors on the same graph? Not a timed test: it records ratios.
//   engine_perftest [--benchmark_filter=step_64x96]       (ns_per_task is the figure to compare)
#include <benchmark/benchmark.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/engine/simulate.h"
#include "sim/graph/graph_algorithms.h"
#include "tests/perf/bare_loops.h"
#include "tests/support/sketch.h"
#include "tests/support/workloads.h"

namespace stepsim {
namespace {

struct Workload {
  std::string name;
  std::function<TaskGraph()> make;
};

Workload Step(const std::string& name, StepShape shape) {
  return {name, [shape] { return BuildStep(shape); }};
}

Workload Rand(const std::string& name, RandomGraph random) {
  return {name, [random] { return BuildRandom(random); }};
}

std::vector<Workload> AllWorkloads() {
  constexpr std::size_t k1e6 = 1'000'000, k1e7 = 10'000'000;
  constexpr RandomShape kNarrow = RandomShape::kNarrow, kWide = RandomShape::kWide;
  return {Step("step_1x96", {.ranks = 1, .layers = 96}),
          Step("step_64x96", {.ranks = 64, .layers = 96}),
          Step("step_1024x96", {.ranks = 1024, .layers = 96}),
          Step("step_274x96_1e6", {.ranks = 274, .layers = 96}),
          Step("step_274x960_1e7", {.ranks = 274, .layers = 960}),
          Step("step_2740x96_1e7", {.ranks = 2740, .layers = 96}),
          Rand("rand_narrow_1e6", {.shape = kNarrow, .tasks = k1e6}),
          Rand("rand_narrow_1e7", {.shape = kNarrow, .tasks = k1e7}),
          Rand("rand_wide_1e6", {.shape = kWide, .tasks = k1e6}),
          Rand("rand_wide_1e7", {.shape = kWide, .tasks = k1e7}),
          Rand("rand_narrow_shuffled_1e6", {.shape = kNarrow, .tasks = k1e6, .is_shuffled = true}),
          Rand("rand_wide_shuffled_1e6", {.shape = kWide, .tasks = k1e6, .is_shuffled = true})};
}

// All programs over one graph; they must agree before their speed means anything.
struct Prepared {
  explicit Prepared(const Workload& workload)
      : name(workload.name),
        graph(workload.make()),
        costs(CostsFromTags(graph)),
        bare(ToBare(graph)),
        sweep(ToSweep(bare)) {
    const auto makespan = Simulate(graph, costs).makespan.time_since_epoch().count();
    SIM_CHECK(makespan == RunBareHeapLoop(bare), "the engine and the bare loop disagree");
    SIM_CHECK(makespan == RunSweep(sweep), "the engine and the sweep disagree");
  }

  std::string name;
  TaskGraph graph;
  TaskCosts costs;
  BareGraph bare;
  BareSweep sweep;
};

// Full speed always: what the bookkeeping of interference costs.
class Identity : public Interference {
 public:
  void Rates(RankId, std::span<const RunningTask>, std::span<double>) override {}
};

class Benchmarks {
 public:
  void Register() {
    for (const Workload& workload : AllWorkloads()) {
      Add(workload, "engine",
          [](const Prepared& p) { return Simulate(p.graph, p.costs).makespan; });
      Add(workload, "bare_heap_loop", [](const Prepared& p) { return RunBareHeapLoop(p.bare); });
      Add(workload, "longest_path_sweep", [](const Prepared& p) { return RunSweep(p.sweep); });
      if (!workload.name.ends_with("1e7")) AddBuild(workload);  // tens of seconds otherwise
      if (workload.name == "step_64x96" || workload.name == "step_274x96_1e6") {
        Add(workload, "engine_identity_interference", [](const Prepared& p) {
          Identity identity;
          return Simulate(p.graph, p.costs, &identity).makespan;
        });
      }
      if (workload.name == "rand_narrow_1e6") {
        Add(workload, "boost_longest_path",
            [](const Prepared& p) { return LongestPath(p.graph, DurationsFromTags(p.graph)); });
      }
    }
  }

 private:
  static void SetPerTask(std::size_t tasks, benchmark::State* state) {
    state->counters["ns_per_task"] = benchmark::Counter(
        static_cast<double>(tasks) * 1e-9,
        benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
    state->counters["tasks"] = static_cast<double>(tasks);
  }

  // One workload is held at a time: the benchmarks of one follow each other.
  const Prepared& Get(const Workload& workload) {
    if (!current_ || current_->name != workload.name) {
      current_.reset();
      current_.emplace(workload);
    }
    return *current_;
  }

  template <class Run>
  void Add(const Workload& workload, const std::string& program, Run run) {
    benchmark::RegisterBenchmark((workload.name + "/" + program).c_str(),
                                 [this, workload, run](benchmark::State& state) {
                                   const Prepared& prepared = Get(workload);
                                   for (auto _ : state) benchmark::DoNotOptimize(run(prepared));
                                   SetPerTask(prepared.graph.task_count(), &state);
                                 })
        ->Unit(benchmark::kMillisecond);
  }

  void AddBuild(const Workload& workload) {
    benchmark::RegisterBenchmark((workload.name + "/build").c_str(), [workload](
                                                                         benchmark::State& state) {
      std::size_t tasks = 0;
      for (auto _ : state) tasks = workload.make().task_count();
      SetPerTask(tasks, &state);
    })->Unit(benchmark::kMillisecond);
  }

  std::optional<Prepared> current_;
};

}  // namespace
}  // namespace stepsim

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  stepsim::Benchmarks benchmarks;
  benchmarks.Register();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
