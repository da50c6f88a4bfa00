// How long does it take to make a pipeline schedule's order, and to replay it? Aims: the ZBV order
// for 32 ranks and 128 micro-batches in under 50 ms; order and replay of 16 ranks and 64
// micro-batches in under 2 ms, for every schedule.
#include <benchmark/benchmark.h>

#include <string>

#include "models/pipeline/check_schedule.h"
#include "models/pipeline/lowering.h"
#include "models/pipeline/replay.h"
#include "models/pipeline/schedule.h"

namespace stepsim {
namespace {

ScheduleShape Shape(const ScheduleRow& row, std::int32_t ranks, std::int32_t microbatches) {
  return {.ranks = ranks, .chunks = row.default_chunks, .microbatches = microbatches};
}

void Order(benchmark::State& state, const ScheduleRow& row, const ScheduleShape& shape) {
  for (auto _ : state) benchmark::DoNotOptimize(row.Make(shape).ranks.size());
}

void OrderAndReplay(benchmark::State& state, const ScheduleRow& row, const ScheduleShape& shape) {
  for (auto _ : state) benchmark::DoNotOptimize(Replay(row.Make(shape)).makespan);
}

void CheckAndLower(benchmark::State& state, const ScheduleRow& row, const ScheduleShape& shape) {
  const PipelineSchedule schedule = row.Make(shape);
  for (auto _ : state) {
    benchmark::DoNotOptimize(InvalidActions(schedule).size() + WaitCycle(schedule).size());
    benchmark::DoNotOptimize(Lower(schedule).ranks.size());
  }
}

void Register(const char* what, const ScheduleRow& row, const ScheduleShape& shape,
              void (*run)(benchmark::State&, const ScheduleRow&, const ScheduleShape&)) {
  const std::string name = std::string(what) + "/" + std::string(row.name) + "_p" +
                           std::to_string(shape.ranks) + "_m" + std::to_string(shape.microbatches);
  benchmark::RegisterBenchmark(name.c_str(), run, row, shape)->Unit(benchmark::kMicrosecond);
}

void RegisterAll() {
  for (const ScheduleRow& row : Schedules()) {
    Register("order_and_replay", row, Shape(row, 16, 64), OrderAndReplay);
  }
  for (const char* name : {"zbv", "zb2p", "v_half"}) {
    const ScheduleRow& row = *FindSchedule(name);
    Register("order", row, Shape(row, 32, 128), Order);
  }
  const ScheduleRow& interleaved = *FindSchedule("interleaved_1f1b");
  Register("check_and_lower", interleaved, {.ranks = 16, .chunks = 8, .microbatches = 64},
           CheckAndLower);
}

}  // namespace
}  // namespace stepsim

int main(int argc, char** argv) {
  stepsim::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
