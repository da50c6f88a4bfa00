#include "models/calibration/train_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "models/calibration/error_statistics.h"
#include "models/calibration/log_lines.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

enum class Where { kAfter, kBefore };  // of the number, from the key

struct Quantity {
  std::string_view key;
  LogQuantity quantity;
  double scale = 1;
  Where where = Where::kAfter;
};

// A line is a dialect's if it holds the marker.
struct Dialect {
  std::string_view name;
  std::string_view marker;
  std::array<Quantity, 4> quantities;
};

constexpr auto kSeconds = LogQuantity::kStepSeconds;
constexpr auto kSteps = LogQuantity::kStepsPerSecond;
constexpr auto kTokens = LogQuantity::kTokensPerSecond;
constexpr auto kGpuTokens = LogQuantity::kTokensPerGpuSecond;
constexpr auto kSamples = LogQuantity::kSamplesPerSecond;
constexpr auto kFlops = LogQuantity::kFlopsPerGpuSecond;
constexpr auto kMfuOf = LogQuantity::kMfu;

constexpr std::array kDialects = {
    Dialect{"megatron",
            "elapsed time per iteration",
            {Quantity{"elapsed time per iteration (ms)", kSeconds, 1e-3},
             Quantity{"elapsed time per iteration (s)", kSeconds},
             Quantity{"throughput per GPU (TFLOP/s/GPU)", kFlops, 1e12},
             Quantity{"TFLOPs", kFlops, 1e12}}},
    Dialect{"torchtitan",
            "mfu: ",
            {Quantity{" tps", kGpuTokens}, Quantity{" wps", kGpuTokens},
             Quantity{" tflops", kFlops, 1e12}, Quantity{" mfu", kMfuOf, 0.01}}},
    Dialect{"deepspeed", "SamplesPerSec=", {Quantity{"CurrSamplesPerSec", kSamples}}},
    Dialect{"llm-foundry",
            "throughput/",
            {Quantity{"throughput/batches_per_sec", kSteps},
             Quantity{"throughput/tokens_per_sec", kTokens},
             Quantity{"throughput/device/tokens_per_sec", kGpuTokens},
             Quantity{"throughput/device/mfu", kMfuOf}}},
    Dialect{"nemo", "train_step_timing in s", {Quantity{"train_step_timing in s", kSeconds}}},
    Dialect{"lightning", "it/s", {Quantity{"it/s", kSteps, 1, Where::kBefore}}},
    Dialect{"lightning", "s/it", {Quantity{"s/it", kSeconds, 1, Where::kBefore}}},
    Dialect{
        "nanogpt", "iter ", {Quantity{", time ", kSeconds, 1e-3}, Quantity{" mfu ", kMfuOf, 0.01}}},
};

// "... [00:12<00:12,  1.23s/it" -> 1.23.
std::optional<double> NumberBefore(std::string_view line, std::string_view key) {
  const std::size_t end = line.find(key);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 &&
         ((line[begin - 1] >= '0' && line[begin - 1] <= '9') || line[begin - 1] == '.')) {
    --begin;
  }
  return begin == end ? std::nullopt : NumberIn(line.substr(begin, end - begin));
}

using Values = std::map<LogQuantity, std::vector<double>>;

bool IsPossible(LogQuantity quantity, double value) {
  if (!(value > 0)) return false;
  if (quantity == LogQuantity::kMfu) return value <= 1;
  if (quantity == LogQuantity::kStepSeconds) return value < 86'400;
  return value < 1e18;
}

void ReadLine(std::string_view line, const Dialect& dialect, Values& values) {
  if (line.find(dialect.marker) == std::string_view::npos) return;
  for (const Quantity& q : dialect.quantities) {
    if (q.key.empty()) continue;
    const auto number =
        q.where == Where::kAfter ? NumberAfter(line, q.key) : NumberBefore(line, q.key);
    constexpr std::size_t kMost = 1'000'000;
    std::vector<double>& list = values[q.quantity];
    if (number && IsPossible(q.quantity, *number * q.scale) && list.size() < kMost) {
      list.push_back(*number * q.scale);
    }
  }
}

// The first tenth, two lines at least where there are enough: compilers, caches, allocators.
LogSeries SeriesOf(LogQuantity quantity, std::vector<double> values) {
  constexpr std::size_t kWarmUp = 2, kEnough = 6;
  LogSeries series;
  series.quantity = quantity;
  series.skipped = values.size() >= kEnough ? std::max(kWarmUp, values.size() / 10)
                                            : std::min<std::size_t>(values.size() - 1, 1);
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(series.skipped));
  series.used = values.size();
  series.median = Quantile(values, 0.5);
  series.p10 = Quantile(values, 0.1);
  series.p90 = Quantile(values, 0.9);
  return series;
}

}  // namespace

std::string_view ToString(LogQuantity quantity) {
  switch (quantity) {
    case LogQuantity::kStepSeconds:
      return "seconds per step";
    case LogQuantity::kStepsPerSecond:
      return "steps/s";
    case LogQuantity::kTokensPerSecond:
      return "tokens/s";
    case LogQuantity::kTokensPerGpuSecond:
      return "tokens/s per GPU";
    case LogQuantity::kSamplesPerSecond:
      return "samples/s";
    case LogQuantity::kFlopsPerGpuSecond:
      return "FLOP/s per GPU";
    case LogQuantity::kMfu:
      break;
  }
  return "MFU";
}

TrainLog ReadTrainLog(std::string_view text, const std::string& file_name) {
  if (text.size() > LogLimits::kMostBytes) {
    throw ConfigError(Place{file_name, 0, 0},
                      fmt::format("found more than {} bytes", LogLimits::kMostBytes));
  }
  std::array<Values, kDialects.size()> values;
  while (!text.empty()) {
    const std::string line = NextLine(text);
    for (std::size_t i = 0; i < kDialects.size(); ++i) ReadLine(line, kDialects[i], values[i]);
  }
  // The dialect with the most numbers: a progress bar may stand beside a framework's own lines.
  std::size_t best = 0, most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t count = 0;
    for (const auto& [quantity, list] : values[i]) count += list.size();
    if (count > most) {
      most = count;
      best = i;
    }
  }
  if (most == 0) {
    throw ConfigError(Place{file_name, 0, 0},
                      fmt::format("found no line with a step's time or rate, allowed: logs of {}",
                                  fmt::join(TrainLogDialects(), ", ")));
  }
  TrainLog log;
  log.dialect = kDialects[best].name;
  for (auto& [quantity, list] : values[best]) {
    if (!list.empty()) log.series.push_back(SeriesOf(quantity, std::move(list)));
  }
  return log;
}

std::vector<std::string> TrainLogDialects() {
  std::vector<std::string> names;
  for (const Dialect& dialect : kDialects) {
    if (names.empty() || names.back() != dialect.name) names.emplace_back(dialect.name);
  }
  return names;
}

}  // namespace stepsim
