#include "tests/support/vec.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/graph/task_graph_builder.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::string_view kOpening = "```vec ";
constexpr std::string_view kExpect = "expect ";

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(Trim(text.substr(begin, end - begin)));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::int64_t ToInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(fmt::format("'{}' is not a whole number", text));
  }
  return value;
}

VecLine ParseLine(std::string_view text) {
  const std::vector<std::string_view> fields = Split(text, '|');
  if (fields.size() != 6) {
    throw std::runtime_error(fmt::format("{} fields, not 6", fields.size()));
  }
  VecLine line;
  line.id = fields[0];
  line.stream = fields[1];
  line.op = fields[2];
  line.duration = ToInteger(fields[3]);
  if (fields[4] != "-") line.communicator = fields[4];
  if (fields[5] != "-") {
    for (const std::string_view id : Split(fields[5], ',')) line.waits_on.emplace_back(id);
  }
  return line;
}

// "makespan=123 start: f0=0 f1=10"
VecExpectation ParseExpectation(std::string_view text) {
  VecExpectation expected;
  for (const std::string_view word : Split(text, ' ')) {
    if (word == "start:" || word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) throw std::runtime_error("no '=' in an expectation");
    const std::int64_t value = ToInteger(word.substr(equals + 1));
    if (word.substr(0, equals) == "makespan") {
      expected.makespan = value;
    } else {
      expected.start.emplace(word.substr(0, equals), value);
    }
  }
  return expected;
}

// "0" of "0.C", "" of "C", "x" of "x.01".
std::string_view RankOf(std::string_view stream) {
  const std::size_t dot = stream.find('.');
  return dot == std::string_view::npos ? std::string_view() : stream.substr(0, dot);
}

bool IsHost(const VecLine& line) { return line.stream == "H" || line.stream.ends_with(".H"); }
bool IsLink(const VecLine& line) { return RankOf(line.stream) == "x"; }

TaskKind KindOf(const VecLine& line) {
  if (IsHost(line)) return TaskKind::kHost;
  return IsLink(line) || !line.communicator.empty() ? TaskKind::kTransfer : TaskKind::kCompute;
}

void AddLine(const VecLine& line, std::map<std::string, TaskId>* tasks,
             std::map<std::string, TaskId>* last_host, GraphSketch* sketch) {
  std::vector<StreamId> streams = {sketch->Stream(0, line.stream)};
  if (!line.communicator.empty()) {
    streams.push_back(sketch->Stream(0, "communicator " + line.communicator, /*is_queue=*/true));
  }
  std::vector<TaskId> after;
  for (const std::string& id : line.waits_on) after.push_back(tasks->at(id));
  const std::string rank(RankOf(line.stream));
  const auto host = last_host->find(rank);
  if (host != last_host->end() && !IsLink(line)) after.push_back(host->second);
  const TaskKind kind = KindOf(line);
  const Site site = IsLink(line)                  ? Site::kPipelineTransfer
                    : kind == TaskKind::kTransfer ? Site::kGradientReduce
                                                  : Site::kNone;
  const TaskId task =
      sketch->Add(kind, streams, line.duration * kVecUnit, {.name = line.op, .site = site}, after);
  tasks->emplace(line.id, task);
  if (IsHost(line)) (*last_host)[rank] = task;
}

}  // namespace

std::vector<VecExample> ParseVec(std::string_view text) {
  std::vector<VecExample> examples;
  bool is_inside = false;
  std::size_t number = 0;
  for (const std::string_view line : Split(text, '\n')) {
    ++number;
    try {
      if (line.starts_with(kOpening)) {
        is_inside = true;
        examples.push_back({std::string(line.substr(kOpening.size())), {}, {}});
      } else if (!is_inside) {
        continue;
      } else if (line == kFence) {
        is_inside = false;
      } else if (line.starts_with(kExpect)) {
        examples.back().expected = ParseExpectation(line.substr(kExpect.size()));
      } else {
        examples.back().lines.push_back(ParseLine(line));
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("line {}: {}", number, error.what()));
    }
  }
  return examples;
}

std::vector<VecExample> ReadVecFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return ParseVec(std::string(std::istreambuf_iterator<char>(file), {}));
}

VecExample ReadVecExample(const std::string& path, const std::string& name) {
  for (VecExample& example : ReadVecFile(path)) {
    if (example.name == name) return std::move(example);
  }
  throw std::runtime_error(path + " has no example " + name);
}

TaskGraph BuildVec(const VecExample& example) {
  GraphSketch sketch;
  std::map<std::string, TaskId> tasks, last_host;
  for (const VecLine& line : example.lines) AddLine(line, &tasks, &last_host, &sketch);
  return sketch.Build().graph;
}

VecExpectation ObserveVec(const VecExample& example, const Timeline& timeline) {
  VecExpectation observed;
  observed.makespan = (timeline.makespan - kStepBegin) / kVecUnit;
  for (std::size_t i = 0; i < example.lines.size(); ++i) {
    const SimTime start = timeline.start[TaskId{static_cast<std::uint32_t>(i)}];
    observed.start.emplace(example.lines[i].id, (start - kStepBegin) / kVecUnit);
  }
  return observed;
}

}  // namespace stepsim
