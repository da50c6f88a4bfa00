// How long do the largest mixtures take after start-up, report included? Llama-3-405B as TP 8 x PP
// 16 (8 chunks each) x DP 128 with 16 micro-batches, 16 of its 16,384 ranks simulated (aim: 1 s and
// 1 GiB for a whole run), and a data-parallel step of 24 layers with all of 1,024 ranks (aim: 10
// s).
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "models/parallel/build_step.h"
#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

double PeakMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void Run(benchmark::State& state, const ResolvedJob& job) {
  for (auto _ : state) benchmark::DoNotOptimize(RunStep(job).report.window);
  state.counters["tasks"] =
      static_cast<double>(BuildStep(job.job, BuildWorkload(job.job)).graph.task_count());
  state.counters["peak_MiB"] = PeakMiB();
}

void Llama405B(benchmark::State& state) {
  Run(state, testing::LoadShipped("llama-3-405b_tp8_pp16_16384xh100"));
}
BENCHMARK(Llama405B)->Unit(benchmark::kMillisecond);

void AllOf1024Ranks(benchmark::State& state) {
  Run(state, testing::LoadText(R"(
model: gpt2-medium
hardware: h100-sxm-dgx
nodes: 128
plan: {strategy: ddp}
batch: {micro_batch_size: 8, sequence_length: 1024}
precision: {compute: bf16}
simulate: {ranks: all}
)"));
}
BENCHMARK(AllOf1024Ranks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepsim

BENCHMARK_MAIN();
