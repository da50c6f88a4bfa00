// How long does a sharded step of the largest shipped job take after start-up? FSDP2 on 126 layers
// and 16,384 GPUs, one of them simulated: to build, to price, to simulate, and all of it with its
// report. Aim: 20 ms for the first three together.
#include <benchmark/benchmark.h>

#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/parallel/build_step.h"
#include "models/run_step.h"
#include "models/simulate_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

const ResolvedJob& TheJob() {
  static const ResolvedJob job = testing::LoadShipped("llama-3-405b_hsdp_16384xh100");
  return job;
}

void Build(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  std::size_t tasks = 0;
  for (auto _ : state) {
    const BuiltStep step = BuildStep(job, BuildWorkload(job));
    tasks = step.graph.task_count();
    benchmark::DoNotOptimize(tasks);
  }
  state.counters["tasks"] = static_cast<double>(tasks);
}
BENCHMARK(Build)->Unit(benchmark::kMillisecond);

void Price(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const TaskGraph graph = BuildStep(job, BuildWorkload(job)).graph;
  for (auto _ : state) benchmark::DoNotOptimize(PriceGraph(graph, job).costs.size());
}
BENCHMARK(Price)->Unit(benchmark::kMillisecond);

void SimulateIt(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const TaskGraph graph = BuildStep(job, BuildWorkload(job)).graph;
  const GraphCosts priced = PriceGraph(graph, job);
  for (auto _ : state) {
    const auto contention = MakeContention(priced.occupancy, job);
    benchmark::DoNotOptimize(Simulate(graph, priced.costs, contention.get()).makespan);
  }
}
BENCHMARK(SimulateIt)->Unit(benchmark::kMillisecond);

void AllThree(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(TryJob(TheJob().job).step);
}
BENCHMARK(AllThree)->Unit(benchmark::kMillisecond);

void WithReport(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(RunStep(TheJob()).report.window);
}
BENCHMARK(WithReport)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepsim

BENCHMARK_MAIN();
