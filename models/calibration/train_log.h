// How fast did a training run go? The steps of a framework's log: seconds, tokens per second, MFU,
// as Megatron-LM, torchtitan, DeepSpeed, llm-foundry, Lightning and others print them.
//
//   iteration  100/ 5000 | ... | elapsed time per iteration (ms): 5123.4 | ...
//   step: 10  loss:  4.1  memory: 38.5GiB(48.6%)  tps: 7,654  tflops: 321.0  mfu: 39.2%
//
// To read another framework's: a row in kDialects of the .cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

// What a number of a log says of a step.
enum class LogQuantity {
  kStepSeconds,
  kStepsPerSecond,
  kTokensPerSecond,  // of all GPUs
  kTokensPerGpuSecond,
  kSamplesPerSecond,   // of all GPUs
  kFlopsPerGpuSecond,  // in the framework's own count
  kMfu,                // a fraction
};
std::string_view ToString(LogQuantity quantity);

// One quantity over the run: the first steps, which compile and warm up, left out.
struct LogSeries {
  LogQuantity quantity = LogQuantity::kStepSeconds;
  double median = 0;
  double p10 = 0, p90 = 0;
  std::size_t used = 0, skipped = 0;  // lines
};

struct TrainLog {
  std::string dialect;  // "megatron"
  std::vector<LogSeries> series;
};

// Throws ConfigError where no line is one of a dialect's.
TrainLog ReadTrainLog(std::string_view text, const std::string& file_name);

std::vector<std::string> TrainLogDialects();

}  // namespace stepsim
