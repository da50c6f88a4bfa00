// How fast is the Chrome trace? Not a timed test: it records ns per slice, which must not grow with
// the number of slices.
//   trace_perftest --benchmark_out=trace.json        (ns_per_slice is the figure to compare)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph_builder.h"
#include "sim/metrics/build_report.h"
#include "sim/report/writer.h"

namespace stepsim {
namespace {

struct Step {
  TaskGraph graph;
  Timeline timeline;
  StepReport report;
  Result result() const { return {graph, timeline, report}; }
};

// One rank's data-parallel step with the names and payloads of a real one: 12 forward and 24
// backward kernels a layer, one all-reduce and one optimizer kernel: 38 slices a layer.
class StepMaker {
 public:
  Step Make(int ranks, int layers) && {
    for (int r = 0; r < ranks; ++r) AddRank(r, ranks, layers);
    Step step;
    step.graph = std::move(builder_).Build();
    TaskCosts costs(step.graph.work_count());
    for (TaskCost& cost : costs) cost.isolated = Duration{40'123'456};
    IdVector<WorkId, CollectiveChoice> choices(step.graph.work_count(), {"ring", "simple"});
    step.timeline = Simulate(step.graph, costs);
    step.report = BuildReport(step.graph, costs, std::move(choices), step.timeline, {});
    return step;
  }

 private:
  void AddRank(int r, int ranks, int layers) {
    const RankId rank = builder_.AddRank({.global_rank = r});
    compute_ = builder_.AddStream(rank, "compute");
    nccl_ = builder_.AddStream(rank, "nccl dp");
    if (r == 0) {
      ProcessGroup group{.name = "dp", .description = "data parallel", .ranks = {}};
      for (int i = 0; i < ranks; ++i) group.ranks.push_back(i);
      group_ = builder_.AddGroup(std::move(group));
      for (int l = 0; l < layers; ++l) meetings_.push_back(builder_.AddRendezvous());
    }
    for (int l = 0; l < layers; ++l) AddKernels(l, "fwd", 12, Phase::kForward);
    std::vector<TaskId> reduced;
    for (int l = layers; l-- > 0;) {
      const TaskId gradient = AddKernels(l, "bwd", 24, Phase::kBackward);
      const CollectiveWork work{.op = CollectiveOp::kAllReduce,
                                .dtype = DType::kFp32,
                                .bytes = {26'214'400},
                                .group = group_};
      const TaskId reduce = builder_.AddTask(
          builder_.AddWork(work),
          builder_.AddLabel({.name = "all_reduce bucket " + std::to_string(layers - 1 - l),
                             .site = Site::kGradientReduce,
                             .phase = Phase::kBackward}),
          nccl_);
      builder_.AddDependency(gradient, reduce);
      builder_.Join(meetings_[static_cast<std::size_t>(l)], reduce);
      reduced.push_back(reduce);
    }
    for (const TaskId reduce : reduced) {
      builder_.AddDependency(reduce, AddKernels(0, "optimizer", 1, Phase::kOptimizer));
    }
  }

  TaskId AddKernels(int layer, const std::string& name, int count, Phase phase) {
    TaskId last = kNoId<TaskId>;
    for (int k = 0; k < count; ++k) {
      const ComputeWork work{.compute_class = ComputeClass::kGemm,
                             .dtype = DType::kBf16,
                             .flops = {1.234e11 + k},
                             .bytes = {56'789'012}};
      const LabelId label = builder_.AddLabel(
          {.name = "layer" + std::to_string(layer) + "." + name + ".kernel" + std::to_string(k),
           .phase = phase});
      last = builder_.AddTask(builder_.AddWork(work), label, compute_);
    }
    return last;
  }

  TaskGraphBuilder builder_;
  StreamId compute_{}, nccl_{};
  GroupId group_{};
  std::vector<RendezvousId> meetings_;
};

// 96 layers are 3648 slices a rank.
constexpr int kLayers = 96;

void SetPerSlice(benchmark::State& state, std::size_t slices, std::size_t bytes) {
  state.counters["ns_per_slice"] = benchmark::Counter(
      static_cast<double>(slices) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["slices"] = static_cast<double>(slices);
  state.counters["bytes_per_slice"] = static_cast<double>(bytes) / static_cast<double>(slices);
}

void ToNowhere(benchmark::State& state) {
  const Step step = StepMaker().Make(static_cast<int>(state.range(0)), kLayers);
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    WriteChromeTrace(step.result(), [&bytes](std::string_view text) { bytes += text.size(); });
  }
  SetPerSlice(state, step.graph.task_count(), bytes);
}

void ToFile(benchmark::State& state, const std::string& name) {
  const Step step = StepMaker().Make(static_cast<int>(state.range(0)), kLayers);
  const std::filesystem::path path = std::filesystem::temp_directory_path() / name;
  for (auto _ : state) WriteFileAtomically(path.string(), *FindWriter(name), step.result());
  SetPerSlice(state, step.graph.task_count(), std::filesystem::file_size(path));
  std::filesystem::remove(path);
}

// The floor: as many bytes as the trace has, written to a file in pieces of 64 KiB and nothing
// else.
void BytesToFile(benchmark::State& state) {
  const Step step = StepMaker().Make(static_cast<int>(state.range(0)), kLayers);
  std::size_t bytes = 0;
  WriteChromeTrace(step.result(), [&bytes](std::string_view text) { bytes += text.size(); });
  const std::string piece(std::size_t{64} << 10, 'x');
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "stepsim_perf.bytes";
  for (auto _ : state) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    std::setvbuf(file, nullptr, _IONBF, 0);
    for (std::size_t left = bytes; left > 0; left -= std::min(left, piece.size())) {
      benchmark::DoNotOptimize(std::fwrite(piece.data(), 1, std::min(left, piece.size()), file));
    }
    std::fclose(file);
  }
  SetPerSlice(state, step.graph.task_count(), bytes);
  std::filesystem::remove(path);
}

// 28 and 275 ranks: 1e5 and 1e6 slices.
BENCHMARK(ToNowhere)->Arg(28)->Arg(275)->Unit(benchmark::kMillisecond);
BENCHMARK(BytesToFile)->Arg(28)->Arg(275)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ToFile, plain, std::string("stepsim_perf.trace.json"))
    ->Arg(28)
    ->Arg(275)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ToFile, gzipped, std::string("stepsim_perf.trace.json.gz"))
    ->Arg(28)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepsim

BENCHMARK_MAIN();
