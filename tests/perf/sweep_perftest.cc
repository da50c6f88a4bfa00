// How long does one point of a sweep take, and where? A folded DDP step of 96 layers. Aim: 0.1 ms
// on one core where only costs change.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/parallel/build_step.h"
#include "models/run_step.h"
#include "models/simulate_job.h"
#include "models/spec/check_job.h"
#include "models/spec/remembering_source.h"
#include "models/step_context.h"
#include "models/study/prepared_step.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/memory_profile.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

const ResolvedJob& TheJob() {
  static const ResolvedJob job =
      testing::LoadShipped("llama-3.2-3b_ddp_16xa100", {"model.transformer.layers=96"});
  return job;
}

void Load(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        testing::LoadShipped("llama-3.2-3b_ddp_16xa100", {"model.transformer.layers=96"}));
  }
}
BENCHMARK(Load)->Unit(benchmark::kMicrosecond);

// From files read once.
void LoadVariant(benchmark::State& state) {
  static const DirectoryConfigSource disk = testing::ShippedConfigs();
  static const RememberingSource source(disk);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        LoadJob("llama-3.2-3b_ddp_16xa100", {"model.transformer.layers=96"}, source));
  }
}
BENCHMARK(LoadVariant)->Unit(benchmark::kMicrosecond);

void Context(benchmark::State& state) {
  const Workload workload = BuildWorkload(TheJob().job);
  for (auto _ : state) benchmark::DoNotOptimize(MakeStepContext(TheJob(), workload).gpus);
}
BENCHMARK(Context)->Unit(benchmark::kMicrosecond);

void Check(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(IsPossible(TheJob().job));
}
BENCHMARK(Check)->Unit(benchmark::kMicrosecond);

void Copy(benchmark::State& state) {
  for (auto _ : state) {
    JobSpec job = TheJob().job;
    benchmark::DoNotOptimize(job);
  }
}
BENCHMARK(Copy)->Unit(benchmark::kMicrosecond);

void WorkloadOnly(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(BuildWorkload(TheJob().job));
}
BENCHMARK(WorkloadOnly)->Unit(benchmark::kMicrosecond);

void Build(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const Workload workload = BuildWorkload(job);
  std::size_t tasks = 0;
  for (auto _ : state) {
    const BuiltStep step = BuildStep(job, workload, HostThread::kAhead);
    tasks = step.graph.task_count();
    benchmark::DoNotOptimize(tasks);
  }
}
BENCHMARK(Build)->Unit(benchmark::kMicrosecond);

void Price(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  std::size_t works = 0;
  for (auto _ : state) benchmark::DoNotOptimize(works = PriceGraph(graph, job).costs.size());
}
BENCHMARK(Price)->Unit(benchmark::kMicrosecond);

void SimulateIt(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const TaskGraph graph = BuildStep(job, BuildWorkload(job), HostThread::kAhead).graph;
  const GraphCosts priced = PriceGraph(graph, job);
  for (auto _ : state) {
    const auto contention = MakeContention(priced.occupancy, job);
    benchmark::DoNotOptimize(Simulate(graph, priced.costs, contention.get()).makespan);
  }
}
BENCHMARK(SimulateIt)->Unit(benchmark::kMicrosecond);

void Account(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const SimulatedStep step = SimulateJob(job, BuildWorkload(job));
  for (auto _ : state) {
    const Window window = LastStepWindow(step.graph, step.timeline);
    benchmark::DoNotOptimize(
        AccountRank(step.graph, step.priced.costs, step.timeline, RankId{0}, window));
  }
}
BENCHMARK(Account)->Unit(benchmark::kMicrosecond);

void Memory(benchmark::State& state) {
  const JobSpec& job = TheJob().job;
  const SimulatedStep step = SimulateJob(job, BuildWorkload(job));
  for (auto _ : state) {
    const Window window = LastStepWindow(step.graph, step.timeline);
    benchmark::DoNotOptimize(PeakMemory(step.graph, step.timeline, window, 1.0));
  }
}
BENCHMARK(Memory)->Unit(benchmark::kMicrosecond);

// 96 layers of one forward and one backward kernel and 26 MB of gradients each, as closed-form
// tools see a step.
ResolvedJob JobOfLayers() {
  std::string layers;
  for (int i = 0; i < 96; ++i) {
    const std::string name = "l" + std::to_string(i);
    layers += (i > 0 ? ", " : "") + ("{name: " + name + ", parameters: [{name: " + name +
                                     ".w, elements: 6553600}], forward_flops: 24 GFLOP}");
  }
  return testing::LoadText("{model: {name: layers, layers: [" + layers +
                           "]}, hardware: a100-80g-dgx, nodes: 2, plan: {strategy: ddp}}");
}

// One point of a sweep over a cost.
void CostPoint(benchmark::State& state, const ResolvedJob& base) {
  PreparedStep step(base);
  double gbps = 50;
  for (auto _ : state) {
    gbps = gbps < 400 ? gbps + 1 : 50;
    const auto point =
        WithCosts(base.job, {"hardware.network.link.bandwidth=" + std::to_string(gbps) + " Gb/s"});
    benchmark::DoNotOptimize(step.Try(*point).window);
  }
}
void CostPointOfOperators(benchmark::State& state) { CostPoint(state, TheJob()); }
BENCHMARK(CostPointOfOperators)->Unit(benchmark::kMicrosecond);
void CostPointWithoutContention(benchmark::State& state) {
  CostPoint(state, testing::LoadShipped("llama-3.2-3b_ddp_16xa100",
                                        {"model.transformer.layers=96", "contention=off"}));
}
BENCHMARK(CostPointWithoutContention)->Unit(benchmark::kMicrosecond);
void CostPointOfLayers(benchmark::State& state) { CostPoint(state, JobOfLayers()); }
BENCHMARK(CostPointOfLayers)->Unit(benchmark::kMicrosecond);

void Try(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(TryJob(TheJob().job).step);
}
BENCHMARK(Try)->Unit(benchmark::kMicrosecond);

void WithReport(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(RunStep(TheJob()).report.window);
}
BENCHMARK(WithReport)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepsim

// As the program does it (tools/stepsim/main.cc): freed memory stays.
int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
