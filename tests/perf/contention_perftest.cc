// What does contention cost the engine? A data-parallel step of a shipped job on every rank, with
// fixed rates, with an interference that answers 1, and with that of a GPU. Compare the ratios.
#include <benchmark/benchmark.h>

#include <variant>

#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/parallel/build_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

// Every collective of the job is a ring of 24 thread blocks, whichever model prices it.
struct Prepared {
  Prepared() {
    const JobSpec job =
        testing::LoadShipped("llama-3.2-3b_ddp_16xa100", {"simulate.ranks=all"}).job;
    hardware = job.hardware;
    graph = BuildStep(job, BuildWorkload(job)).graph;
    GraphCosts priced = PriceGraph(graph, job);
    costs = std::move(priced.costs);
    occupancy = std::move(priced.occupancy);
    for (Occupancy& work : occupancy) {
      if (work.kind != TaskKind::kTransfer) continue;
      work.sms = 24;
      work.hbm = 0.6e12;
      work.intra = 0.7;
      work.network = 0.9;
    }
  }

  HardwareSpec hardware;
  TaskGraph graph;
  TaskCosts costs;
  IdVector<WorkId, Occupancy> occupancy;
};

class FullSpeed : public Interference {
 public:
  void Rates(RankId, std::span<const RunningTask>, std::span<double>) override {}
};

void SetPerTask(const Prepared& p, benchmark::State* state) {
  state->counters["ns_per_task"] = benchmark::Counter(
      static_cast<double>(p.graph.task_count()) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state->counters["tasks"] = static_cast<double>(p.graph.task_count());
}

const Prepared& TheStep() {
  static const Prepared step;
  return step;
}

void FixedRates(benchmark::State& state) {
  const Prepared& p = TheStep();
  for (auto _ : state) benchmark::DoNotOptimize(Simulate(p.graph, p.costs).makespan);
  SetPerTask(p, &state);
}
BENCHMARK(FixedRates)->Unit(benchmark::kMicrosecond);

void FullSpeedInterference(benchmark::State& state) {
  const Prepared& p = TheStep();
  FullSpeed full_speed;
  for (auto _ : state) benchmark::DoNotOptimize(Simulate(p.graph, p.costs, &full_speed).makespan);
  SetPerTask(p, &state);
}
BENCHMARK(FullSpeedInterference)->Unit(benchmark::kMicrosecond);

void GpuContention(benchmark::State& state) {
  const Prepared& p = TheStep();
  for (auto _ : state) {
    Contention contention(p.occupancy, p.hardware, {});
    benchmark::DoNotOptimize(Simulate(p.graph, p.costs, &contention).makespan);
  }
  SetPerTask(p, &state);
}
BENCHMARK(GpuContention)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepsim

BENCHMARK_MAIN();
