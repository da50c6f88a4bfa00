// What does it cost to ask for a collective's cost? Not a timed test.
//   cost_perftest [--benchmark_filter=seen]
#include <benchmark/benchmark.h>

#include <cstdint>

#include "models/cost/collective_cost.h"
#include "tests/support/nccl_systems.h"

namespace stepsim {
namespace {

CollectiveModelSpec Nccl() {
  CollectiveModelSpec spec;
  spec.model = CollectiveModel::kNccl;
  return spec;
}

CollectiveRequest Request(std::int64_t bytes) {
  return {CollectiveOp::kAllReduce, Bytes{bytes}, DType::kBf16, Nodes(2)};
}

// A request that was asked before: a step asks for each bucket many times.
void BM_seen(benchmark::State& state) {
  const CollectivePricer price(DgxH100(), Nccl());
  constexpr std::int64_t kSizes = 64;
  for (std::int64_t i = 0; i < kSizes; ++i) price(Request(i << 20));
  std::int64_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(price(Request((i++ % kSizes) << 20)));
}
BENCHMARK(BM_seen);

// A new size of a known group: every algorithm and protocol once.
void BM_new_size(benchmark::State& state) {
  const CollectivePricer price(DgxH100(), Nccl());
  std::int64_t bytes = 0;
  for (auto _ : state) benchmark::DoNotOptimize(price(Request(++bytes)));
}
BENCHMARK(BM_new_size);

// A new group: NCCL's graph search too.
void BM_new_group(benchmark::State& state) {
  for (auto _ : state) {
    const CollectivePricer price(DgxH100(), Nccl());
    benchmark::DoNotOptimize(price(Request(1 << 20)));
  }
}
BENCHMARK(BM_new_group);

}  // namespace
}  // namespace stepsim

BENCHMARK_MAIN();
