// stepsim required: from which bandwidth, batch or number of nodes on is a target reached?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "models/study/required.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/measured_value.h"
#include "tools/stepsim/result_table.h"

namespace stepsim {
namespace {

struct RequiredOptions {
  std::shared_ptr<JobOptions> job;
  std::string exposed, mfu, step_time;
  std::vector<std::string> free;
  std::vector<std::string> exports;
};

Target ParseTarget(const RequiredOptions& options) {
  std::vector<Target> targets;
  if (!options.exposed.empty()) {
    targets.push_back({TargetKind::kExposed, ParseShare(options.exposed, "--exposed")});
  }
  if (!options.mfu.empty()) {
    targets.push_back({TargetKind::kMfu, ParseShare(options.mfu, "--mfu")});
  }
  if (!options.step_time.empty()) {
    targets.push_back({TargetKind::kStepTime, ParseSeconds(options.step_time, "--step-time")});
  }
  if (targets.size() == 1) return targets.front();
  throw ConfigError(Place{}, fmt::format("found {} targets, allowed: one of --exposed 5%, --mfu "
                                         "40%, --step-time 1.2s",
                                         targets.size()));
}

std::vector<const FreeVariable*> ParseFree(const std::vector<std::string>& names) {
  std::vector<const FreeVariable*> variables;
  std::vector<std::string> known;
  for (const FreeVariable& variable : FreeVariables()) {
    known.emplace_back(variable.name);
    if (names.empty()) variables.push_back(&variable);
  }
  Diagnostics problems;
  for (const std::string& name : names) {
    variables.push_back(FindFreeVariable(name));
    if (variables.back() != nullptr) continue;
    problems.Add({"--free " + name, 0, 0},
                 fmt::format("found no such variable, allowed: {}{}", fmt::join(known, ", "),
                             DidYouMean(name, known)));
  }
  problems.ThrowIfAny();
  return variables;
}

std::string Memory(const JobSpec& job, Bytes memory) {
  if (memory <= job.memory_limit()) return "";
  return fmt::format(", but {} do not fit into {}", FormatMemory(memory),
                     FormatMemory(job.memory_limit()));
}

std::string Answer(const JobSpec& job, const FreeVariable& variable, const Target& target,
                   const Requirement& found) {
  const std::string now = variable.text(job, found.now);
  if (!found.needed) {
    return fmt::format("no value reaches it: {} at best ({}); now {}",
                       FormatValue(target.kind, found.best.reached),
                       variable.text(job, found.best.value), now);
  }
  const TriedValue& needed = *found.needed;
  const std::string text = variable.text(job, needed.value);
  const std::string memory = Memory(job, needed.memory);
  if (found.is_flat) return fmt::format("any value does, it changes nothing here; now {}", now);
  const bool wants_most = variable.wants_most != found.is_reversed;
  if (found.is_always) {
    return fmt::format("every value that was tried does, {} to {}{}; now {}",
                       wants_most ? "up" : "down", text, memory, now);
  }
  const bool is_time = target.kind == TargetKind::kStepTime;  // which stands there anyway
  return fmt::format("{} {}{} (step {}{}){}; now {}",
                     found.is_island ? "near"
                     : wants_most    ? "at most"
                                     : "at least",
                     text, memory, FormatTime(needed.step),
                     is_time ? "" : ", " + FormatValue(target.kind, needed.reached),
                     found.is_island ? ", but neither much less nor much more" : "", now);
}

void Run(const RequiredOptions& options, const Session& session) {
  const std::vector<TableTarget> targets = ParseTableTargets(options.exports);
  RefuseToReplace(InputFiles(*options.job), options.exports);
  const Target target = ParseTarget(options);
  const std::vector<const FreeVariable*> variables = ParseFree(options.free);
  const JobVariants variants = LoadVariants(*options.job, session);
  const JobSpec& job = variants.base().job;
  Trial trial(variants);
  const StepReport base = trial.Try({});
  std::ostream& text = UsesStandardOutput(targets) ? session.streams.err : session.streams.out;
  text << fmt::format("{}\nwanted: {}; now {} ({}), step {}\n", base.context.job,
                      FormatTarget(target), FormatValue(target.kind, ValueOf(target.kind, base)),
                      Holds(target, base) ? "reached" : "missed", FormatTime(base.account().step));
  ResultTable table{{"variable", "now", "needed", "reached", "step_time_s", "memory_bytes",
                     "best_value", "best_reached", "answer"}};
  for (const FreeVariable* variable : variables) {
    const std::string problem = variable->problem(job);
    if (!problem.empty()) {
      text << fmt::format("  {:<13} {}\n", variable->name, problem);
      continue;
    }
    const Requirement found = FindRequired(trial, *variable, target);
    const std::string answer = Answer(job, *variable, target, found);
    text << fmt::format("  {:<13} {}\n", variable->name, answer);
    const auto cell = [&](auto get) {
      return found.needed ? Cell(get(*found.needed)) : Cell(std::string());
    };
    table.rows.push_back({std::string(variable->name), found.now,
                          cell([](const auto& n) { return n.value; }),
                          cell([](const auto& n) { return n.reached; }),
                          cell([](const auto& n) { return ToSeconds(n.step); }),
                          cell([](const auto& n) { return n.memory.value; }), found.best.value,
                          found.best.reached, answer});
  }
  WriteTable(table, "stepsim.required/1",
             {{"job", base.context.job}, {"target", FormatTarget(target)}}, targets,
             session.streams.out, &text);
}

}  // namespace

void AddRequiredCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<RequiredOptions>();
  options->job = AddJobOptions(app);
  app.add_option("--exposed", options->exposed, "at most this share of the step is exposed")
      ->type_name("SHARE");
  app.add_option("--mfu", options->mfu, "at least this MFU, in the job's convention")
      ->type_name("SHARE");
  app.add_option("--step-time", options->step_time, "at most this long")->type_name("TIME");
  std::vector<std::string> names;
  for (const FreeVariable& variable : FreeVariables()) {
    names.push_back(fmt::format("{} ({})", variable.name, variable.doc));
  }
  app.add_option("--free", options->free,
                 fmt::format("what may change: {}; default: each alone; may repeat",
                             fmt::join(names, ", ")))
      ->type_name("NAME")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--export", options->exports,
                 "write the answers as .csv or .json; - is standard output")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
