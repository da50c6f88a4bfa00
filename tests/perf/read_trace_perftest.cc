// How fast is a trace read? Not a timed test: it records MB/s of JSON text, of a generated PyTorch
// trace with 20 events of operators for each kernel, which is what real ones have.
//   read_trace_perftest --benchmark_filter=Read
//   read_trace_perftest --write 1000 big.json        (writes a trace of about 1000 MB and ends)
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "models/trace/measured_run.h"

namespace stepsim {
namespace {

class TraceGenerator {
 public:
  // One step: forward, backward with an all-reduce every tenth kernel.
  std::string Step(int step) {
    constexpr int kKernels = 400;
    text_.clear();
    Annotation(fmt::format("ProfilerStep#{}", step), time_, kKernels * 100);
    for (int kernel = 0; kernel < kKernels; ++kernel, time_ += 100) AddKernel(kernel);
    return text_;
  }

 private:
  void Annotation(const std::string& name, std::int64_t begin, std::int64_t length) {
    text_ += fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "{}", "pid": 7, "tid": 7, "ts": {}.125, )"
        R"("dur": {}, "args": {{"External id": 1}}}},)"
        "\n",
        name, begin, length);
  }

  void AddKernel(int kernel) {
    for (int op = 0; op < 20; ++op) {
      text_ += fmt::format(
          R"({{"ph": "X", "cat": "cpu_op", "name": "aten::op_{}", "pid": 7, "tid": 7, "ts": {}.25, )"
          R"("dur": 2.5, "args": {{"External id": {}, "Record function id": 0, "Ev Idx": {}, )"
          R"("Input Dims": [[64, 512], [512, 512], []], "Input type": ["float", "float", "Scalar"]}}}},)"
          "\n",
          op, time_ + op, id_, id_);
    }
    ++id_;
    text_ += fmt::format(
        R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, )"
        R"("ts": {}.5, "dur": 4.5, "args": {{"External id": {}, "cbid": 211, "correlation": {}}}}},)"
        "\n",
        time_ + 20, id_, id_);
    const bool is_collective = kernel % 10 == 9;
    text_ += fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}.75, "dur": 60.125, )"
        R"("args": {{"External id": {}, "queued": 0, "device": 0, "context": 1, "stream": {}, )"
        R"("correlation": {}, "registers per thread": 96, "grid": [8, 1, 1], "block": [544, 1, 1]{}}}}},)"
        "\n",
        is_collective ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                      : "ampere_sgemm_128x64_nn",
        is_collective ? 20 : 7, time_ + 40, id_, is_collective ? 20 : 7, id_,
        is_collective ? R"(, "Collective name": "allreduce", "In msg nelems": 6637568, )"
                        R"("Out msg nelems": 6637568, "Group size": 2, "dtype": "Float", )"
                        R"("Process Group Name": "0", "Process Group Ranks": "[0, 1]")"
                      : "");
  }

  std::string text_;
  std::int64_t time_ = 1'661'203'462'598'738;
  std::int64_t id_ = 1;
};

constexpr std::string_view kHead =
    "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, "
    "\"world_size\": 2}, \"traceEvents\": [\n";

std::string MakeTrace(std::size_t megabytes) {
  TraceGenerator generator;
  std::string text(kHead);
  for (int step = 0; text.size() < megabytes * 1'000'000; ++step) text += generator.Step(step);
  return text + "{}]}\n";
}

void WriteTrace(std::size_t megabytes, const char* path) {
  TraceGenerator generator;
  std::ofstream file(path);
  file << kHead;
  for (int step = 0; static_cast<std::size_t>(file.tellp()) < megabytes * 1'000'000; ++step) {
    file << generator.Step(step);
  }
  file << "{}]}\n";
}

void ReadTrace(benchmark::State& state) {
  const std::string text = MakeTrace(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ReadTraceTexts({{"rank0.json", text}}, {}).graph.task_count());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(ReadTrace)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepsim

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--write") {
    stepsim::WriteTrace(static_cast<std::size_t>(std::atoi(argv[2])), argv[3]);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
