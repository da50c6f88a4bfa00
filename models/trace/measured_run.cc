#include "models/trace/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/trace/byte_source.h"
#include "models/trace/kineto_reader.h"
#include "models/trace/lane.h"
#include "models/trace/match_lanes.h"
#include "models/trace/nsys_reader.h"
#include "models/trace/run_builder.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

std::vector<TraceData> ReadFile(const std::string& file) {
  if (IsSqlite(file)) return {ReadNsys(file)};
  return ReadKineto(file, [&file] { return OpenTraceFile(file); });
}

// "trace_rank12.json.gz", "rank-3", "worker_rank_7": the number behind the last "rank".
std::int64_t RankInName(const std::string& file) {
  const std::size_t word = file.rfind("rank");
  if (word == std::string::npos) return -1;
  std::size_t i = word + 4;
  while (i < file.size() && (file[i] == '_' || file[i] == '-')) ++i;
  std::int64_t rank = 0;
  const std::size_t digits = i;
  for (; i < file.size() && file[i] >= '0' && file[i] <= '9' && rank < 10'000'000; ++i) {
    rank = 10 * rank + (file[i] - '0');
  }
  return i == digits ? -1 : rank;
}

// What no file says is named by file, then counted on.
void NumberRanks(std::vector<Lane>* lanes, std::vector<std::string>* warnings) {
  std::map<std::string, std::size_t> lanes_of_file;
  for (const Lane& lane : *lanes) ++lanes_of_file[lane.file];
  std::set<std::int64_t> taken;
  bool is_repeated = false;
  for (Lane& lane : *lanes) {
    if (lane.rank < 0 && lanes_of_file[lane.file] == 1) lane.rank = RankInName(lane.file);
    if (lane.rank > 2'000'000'000) lane.rank = -1;
    if (lane.rank >= 0 && !taken.insert(lane.rank).second) is_repeated = true;
  }
  if (is_repeated) {
    warnings->emplace_back("several traces say that they are of one rank: counted in their order");
    for (Lane& lane : *lanes) lane.rank = -1;
    taken.clear();
  }
  std::int64_t next = 0;
  for (Lane& lane : *lanes) {
    if (lane.rank >= 0) continue;
    while (taken.count(next) != 0) ++next;
    lane.rank = next++;
  }
  std::stable_sort(lanes->begin(), lanes->end(),
                   [](const Lane& a, const Lane& b) { return a.rank < b.rank; });
}

class LaneCollector {
 public:
  explicit LaneCollector(const TraceOptions& options) : options_(options) {}

  void Add(const TraceData& data) {
    file_ = data.file;
    for (Lane& lane : MakeLanes(data, options_)) {
      for (const std::string& warning : lane.warnings) {
        warnings_.push_back(fmt::format("{}: {}", data.file, warning));
      }
      if (!lane.spans.empty()) lanes_.push_back(std::move(lane));
    }
  }

  MeasuredRun Build() && {
    if (lanes_.empty()) {
      throw ConfigError({file_, 0, 0}, "holds no kernel with a usable time");
    }
    NumberRanks(&lanes_, &warnings_);
    MeasuredRun run = BuildRun(lanes_, MatchLanes(lanes_));
    run.warnings.insert(run.warnings.begin(), warnings_.begin(), warnings_.end());
    return run;
  }

 private:
  const TraceOptions& options_;
  std::string file_;  // the last one
  std::vector<Lane> lanes_;
  std::vector<std::string> warnings_;
};

}  // namespace

MeasuredRun ReadTraces(const std::vector<std::string>& files, const TraceOptions& options) {
  LaneCollector collector(options);
  for (const std::string& file : files) {
    for (const TraceData& data : ReadFile(file)) collector.Add(data);
  }
  return std::move(collector).Build();
}

MeasuredRun ReadTraceTexts(const std::vector<std::pair<std::string, std::string_view>>& files,
                           const TraceOptions& options) {
  LaneCollector collector(options);
  for (const auto& file : files) {
    const OpenSource open = [&file] { return OpenTraceText(file.second); };
    for (const TraceData& data : ReadKineto(file.first, open)) collector.Add(data);
  }
  return std::move(collector).Build();
}

StepChoice ParseStepChoice(std::string_view text) {
  if (text == "median") return {StepChoice::Kind::kMedian};
  if (text == "last") return {StepChoice::Kind::kLast};
  if (text == "all") return {StepChoice::Kind::kAll};
  if (const auto number = ParseInteger(text)) return {StepChoice::Kind::kNumber, *number};
  throw ConfigError({fmt::format("--step {}", text), 0, 0},
                    "allowed: median, last, all, or the number of a step");
}

MeasuredStep ChooseStep(const MeasuredRun& run, const StepChoice& choice) {
  if (choice.kind == StepChoice::Kind::kAll) {
    return {-1, {kStepBegin, run.timeline.makespan}};
  }
  if (choice.kind == StepChoice::Kind::kNumber) {
    for (const MeasuredStep& step : run.steps) {
      if (step.number == choice.number) return step;
    }
    throw ConfigError({fmt::format("--step {}", choice.number), 0, 0},
                      fmt::format("there is no such step, allowed: {} to {}",
                                  run.steps.front().number, run.steps.back().number));
  }
  const std::size_t skip = choice.skip.value_or(run.steps.size() >= 3 ? 1 : 0);
  if (skip >= run.steps.size()) {
    throw ConfigError({fmt::format("--skip {}", skip), 0, 0},
                      fmt::format("the trace has {} steps, allowed: 0 to {}", run.steps.size(),
                                  run.steps.size() - 1));
  }
  if (choice.kind == StepChoice::Kind::kLast) return run.steps.back();
  std::vector<MeasuredStep> steps(run.steps.begin() + static_cast<std::ptrdiff_t>(skip),
                                  run.steps.end());
  // Of an even number the shorter of the two in the middle: a step that there was.
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(
      steps.begin(), middle, steps.end(), [](const MeasuredStep& a, const MeasuredStep& b) {
        return a.window.length() != b.window.length() ? a.window.length() < b.window.length()
                                                      : a.number < b.number;
      });
  return *middle;
}

}  // namespace stepsim
