// stepsim schedule: in which order does a pipeline run its micro-batches, and what does it cost?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <vector>

#include "models/pipeline/check_schedule.h"
#include "models/pipeline/lowering.h"
#include "models/pipeline/replay.h"
#include "models/pipeline/schedule.h"
#include "models/pipeline/schedule_csv.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/report/writer.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/schedule_picture.h"
#include "tools/stepsim/validate.h"

namespace stepsim {
namespace {

constexpr std::size_t kWidth = 110;  // without a terminal

struct ScheduleOptions {
  std::string name;  // or a file
  std::optional<std::int32_t> stages, chunks, microbatches;
  std::int32_t group = 0;
  std::string times = "1,1,1";
  std::string export_path;
  bool lowers = false;
  bool is_quiet = false;

  bool IsFile() const { return HasEnding(name) || name.find('/') != std::string::npos; }
  static bool HasEnding(std::string_view path) {
    constexpr std::string_view kEnding = ".csv";
    return path.size() > kEnding.size() && path.substr(path.size() - kEnding.size()) == kEnding;
  }
};

// What is asked about: one of ours, or a file's.
struct Asked {
  PipelineSchedule schedule;
  const ScheduleRow* row = nullptr;  // null: a file's
};

ChunkTimes ParseTimes(const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto number = ParseNumber(std::string_view(text).substr(begin, end - begin));
    numbers.push_back(number.value_or(0));
    begin = end + 1;
  }
  const auto is_wrong = [](double number) { return !(number > 0 && number <= 1e9); };
  if (numbers.size() != 3 || std::any_of(numbers.begin(), numbers.end(), is_wrong)) {
    throw ConfigError(Place{"--times", 0, 0},
                      fmt::format("found '{}', allowed: the times of a chunk's forward, input and "
                                  "weight gradient, three numbers above 0 such as 1,1,1",
                                  text));
  }
  return {numbers[0], numbers[1], numbers[2]};
}

void CheckOptions(const ScheduleOptions& options) {
  Diagnostics diagnostics;
  if (!options.export_path.empty() && !IsStandardOutput(options.export_path) &&
      !ScheduleOptions::HasEnding(options.export_path)) {
    diagnostics.Add({"--export " + options.export_path, 0, 0},
                    "found another ending, allowed: .csv, or - for standard output");
  }
  const bool has_shape =
      options.stages || options.chunks || options.microbatches || options.group != 0;
  if (options.IsFile() && has_shape) {
    diagnostics.Add({options.name, 0, 0},
                    "found with --stages, --virtual, --microbatches or --group, allowed: a file "
                    "alone, which says itself how many there are");
  }
  diagnostics.ThrowIfAny();
}

const ScheduleRow& FindRow(const std::string& name) {
  if (const ScheduleRow* row = FindSchedule(name)) return *row;
  std::vector<std::string> names, all;
  for (const ScheduleRow& row : Schedules()) {
    names.emplace_back(row.name);
    all.emplace_back(row.name);
    for (const std::string_view alias : row.aliases) {
      if (!alias.empty()) all.emplace_back(alias);
    }
  }
  throw ConfigError(Place{}, fmt::format("schedule: found '{}', allowed: {}, or a file.csv{}", name,
                                         fmt::join(names, ", "), DidYouMean(name, all)));
}

Asked MakeByName(const ScheduleOptions& options) {
  const ScheduleRow& row = FindRow(options.name);
  const std::int32_t stages = options.stages.value_or(4);
  const ScheduleShape shape{
      .ranks = stages,
      .chunks = options.chunks.value_or(row.default_chunks),
      .microbatches = options.microbatches.value_or(2 * std::clamp(stages, 1, kMostRanks)),
      .group = options.group};
  const std::string problem = row.Problem(shape);
  if (!problem.empty()) throw ConfigError(Place{}, problem);
  return {row.Make(shape), &row};
}

Asked ReadFromFile(const std::string& path) {
  ScheduleFile file = ReadScheduleCsv(ReadTable(path), path);
  std::vector<Diagnostic> problems = ProblemsOf(file);
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return {std::move(file.schedule), nullptr};
}

// ---- What is said about it ----

std::string Number(double value) { return fmt::format("{:.6g}", value); }

std::string Percent(double part, double whole) {
  return fmt::format("{:.1f}%", whole > 0 ? 100 * part / whole : 0);
}

// "8 6 4 2"; "8" if it is the same on every rank; "8 to 2" of many.
template <class Get>
std::string PerRank(const ScheduleReplay& replay, Get get) {
  constexpr std::size_t kMostListed = 16;
  std::vector<double> values;
  for (const RankReplay& rank : replay.ranks) values.push_back(get(rank));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (Number(*low) == Number(*high)) return Number(*low);
  if (values.size() > kMostListed) return Number(*low) + " to " + Number(*high);
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(Number(value));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string Title(const Asked& asked, const ChunkTimes& times) {
  const ScheduleShape& shape = asked.schedule.shape;
  constexpr std::array<std::string_view, 3> kPlacements = {"", " in a V",
                                                           " of each of two copies of the model"};
  return fmt::format(
      "{}: {} stages x {} {}{}, {} micro-batches{}; a chunk takes tF {}, tI {}, tW {}\n",
      asked.schedule.name, shape.ranks, shape.chunks, shape.chunks == 1 ? "chunk" : "chunks",
      kPlacements[static_cast<std::size_t>(asked.schedule.placement)], shape.microbatches,
      shape.group == 0 ? "" : fmt::format(" in groups of {}", shape.group), Number(times.forward),
      Number(times.input_gradient), Number(times.weight_gradient));
}

std::string ClosedForm(const Asked& asked, const ChunkTimes& times) {
  if (asked.row == nullptr || asked.row->idle == nullptr) return "none known";
  const auto idle = asked.row->idle(asked.schedule.shape, times);
  if (!idle)
    return fmt::format("{} does not hold for this shape and these times", asked.row->idle_formula);
  return fmt::format("{} = {} idle", asked.row->idle_formula, Number(*idle));
}

std::string Facts(const Asked& asked, const ScheduleReplay& replay, const ChunkTimes& times) {
  const double idle = replay.ranks.front().idle, busy = replay.ranks.front().busy;
  const double span = replay.longest_span();
  std::string text = "checked      every micro-batch passes every stage once; no deadlock\n";
  if (asked.row == nullptr && ComputeOnly(asked.schedule).ranks != asked.schedule.ranks) {
    text += "             sends, receives, gathers and reductions of the file are not looked at\n";
  }
  text += fmt::format("makespan     {}, with free transfers\n", Number(replay.makespan));
  text += fmt::format("bubble       {} of it idle per rank, {}\n",
                      PerRank(replay, [](const RankReplay& r) { return r.idle; }),
                      Percent(idle, replay.makespan));
  text += fmt::format("closed form  {}\n", ClosedForm(asked, times));
  text += fmt::format(
      "unaligned    {} from a rank's first start to its last end at most, {} of it idle, {}\n",
      Number(span), Number(span - busy), Percent(span - busy, span));
  text += fmt::format("in flight    chunks stored per rank at most: {} (until W or B)",
                      PerRank(replay, [](const RankReplay& r) { return r.peak_live; }));
  if (asked.schedule.splits_backward) {
    text += fmt::format("; {} (until I or B)", PerRank(replay, [](const RankReplay& r) {
                          return r.peak_until_input_gradient;
                        }));
  }
  return text + "\n";
}

void RunSchedule(const ScheduleOptions& options, const Session& session) {
  CheckOptions(options);
  const ChunkTimes times = ParseTimes(options.times);
  const Asked asked = options.IsFile() ? ReadFromFile(options.name) : MakeByName(options);
  const PipelineSchedule compute = ComputeOnly(asked.schedule);
  const std::string cycle = WaitCycle(compute);
  if (!cycle.empty()) {
    throw SimulationError(asked.schedule.name + ": the ranks wait for each other\n" + cycle);
  }
  const PipelineSchedule shown = options.lowers ? Lower(compute) : asked.schedule;
  const bool uses_stdout = IsStandardOutput(options.export_path);
  std::ostream& text = uses_stdout ? session.streams.err : session.streams.out;
  if (!options.is_quiet) {
    const std::size_t width =
        session.streams.terminal_width == 0 ? kWidth : session.streams.terminal_width;
    const ScheduleReplay replay = Replay(compute, times);
    text << Title(asked, times) << '\n' << DrawReplay(compute, replay, width) << '\n';
    if (options.lowers) text << ActionTable(shown, width) << '\n';
    text << Facts(asked, replay, times);
  }
  if (options.export_path.empty()) return;
  const std::string csv = WriteScheduleCsv(shown);
  if (uses_stdout) {
    session.streams.out << csv;
    return;
  }
  WriteFileAtomically(options.export_path, csv);
  if (!options.is_quiet) text << fmt::format("wrote {}\n", options.export_path);
}

}  // namespace

void AddScheduleCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<ScheduleOptions>();
  app.add_option("schedule", options->name,
                 "a name of `stepsim list schedules`, that of PyTorch's class, or a file in "
                 "PyTorch's CSV grammar")
      ->required()
      ->type_name("NAME|FILE.csv");
  app.add_option("--stages", options->stages, "pipeline ranks (default: 4)")->type_name("P");
  app.add_option("--virtual", options->chunks,
                 "model chunks per rank (default: the schedule's own)")
      ->type_name("V");
  app.add_option("--microbatches", options->microbatches,
                 "micro-batches per step (default: twice the stages)")
      ->type_name("M");
  app.add_option("--group", options->group,
                 "megatron_interleaved: microbatch_group_size_per_vp_stage (default: P)")
      ->type_name("G");
  app.add_option("--times", options->times,
                 "of a chunk's forward, input gradient and weight gradient")
      ->option_text("F,I,W=1,1,1");
  app.add_flag("--lower", options->lowers,
               "also print (and export) when parameters are gathered and activations sent, as "
               "PyTorch lowers it");
  app.add_option("--export", options->export_path,
                 "write the actions in PyTorch's CSV grammar; - is standard output")
      ->type_name("FILE.csv");
  app.add_flag("-q,--quiet", options->is_quiet, "nothing on the terminal");
  app.callback([options, &session] { RunSchedule(*options, session); });
}

}  // namespace stepsim
