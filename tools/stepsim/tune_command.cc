// stepsim tune: the best value of each knob, the best of all together, and how to ask for it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "models/study/tune.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/measured_value.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/tune_text.h"

namespace stepsim {
namespace {

struct TuneCommandOptions {
  std::shared_ptr<JobOptions> job;
  std::vector<std::string> knobs;
  std::string budget;
  std::string time = "30s";
  std::size_t points = 0;
  std::size_t threads = 0;
  bool frees_batch = false;
  std::vector<std::string> exports;
};

std::vector<const Knob*> ParseKnobs(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Knob& knob : Knobs()) known.emplace_back(knob.name);
  std::vector<const Knob*> knobs;
  Diagnostics problems;
  for (const std::string& name : names) {
    const Knob* knob = FindKnob(name);
    if (knob == nullptr) {
      problems.Add({"--knobs " + name, 0, 0},
                   fmt::format("found no such knob, allowed: {}{}", fmt::join(known, ", "),
                               DidYouMean(name, known)));
    } else if (std::count(knobs.begin(), knobs.end(), knob) == 0) {
      knobs.push_back(knob);
    }
  }
  problems.ThrowIfAny();
  return knobs;
}

// "memory=80GiB"; 0: the GPU's.
Bytes ParseBudget(const std::string& text) {
  constexpr std::string_view kName = "memory=";
  if (text.empty()) return {};
  const Place place{"--budget " + text, 0, 0};
  if (text.substr(0, kName.size()) != kName) {
    throw ConfigError(place, "found no such budget, allowed: memory=SIZE, as in memory=80GiB");
  }
  const ParsedQuantity size = ParseQuantity(text.substr(kName.size()), Unit::kBytes);
  if (!size.ok()) throw ConfigError(place, size.error);
  if (size.value < 1) throw ConfigError(place, "found no memory, allowed: more than 0 bytes");
  return Bytes{static_cast<std::int64_t>(size.value)};
}

// Each index is taken by the thread that is free; what it writes is its own.
ForEachIndex OnThreads(std::size_t threads) {
  const std::size_t wanted = threads > 0 ? threads : std::thread::hardware_concurrency();
  if (wanted < 2) return ForEachInOrder;
  return [wanted](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
      for (std::size_t i = next++; i < count; i = next++) {
        try {
          body(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
      }
    };
    std::vector<std::thread> pool;
    for (std::size_t t = 1; t < std::min(wanted, count); ++t) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    if (failure) std::rethrow_exception(failure);
  };
}

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

ResultTable PointTable(const Tuning& tuned) {
  ResultTable table{{"settings", "set", "step_time_s", "comparable_time_s", "samples_per_step",
                     "exposed_fraction", "mfu", "memory_bytes", "fits", "is_pareto", "is_best"}};
  for (std::size_t i = 0; i < tuned.points.size(); ++i) {
    const TunePoint& point = tuned.points[i];
    const bool is_pareto = std::count(tuned.pareto.begin(), tuned.pareto.end(), i) > 0;
    table.rows.push_back({point.label, fmt::format("{}", fmt::join(point.changes, " ")),
                          ToSeconds(point.step), point.seconds, point.samples, point.exposed,
                          point.mfu, point.memory.value, point.fits, is_pareto, i == tuned.winner});
  }
  return table;
}

void Run(const TuneCommandOptions& options, const Session& session) {
  const std::vector<TableTarget> targets = ParseTableTargets(options.exports);
  RefuseToReplace(InputFiles(*options.job), options.exports);
  const Clock clock;
  const double limit = ParseSeconds(options.time, "--time");
  TuneOptions tune;
  tune.knobs = ParseKnobs(options.knobs);
  tune.memory = ParseBudget(options.budget);
  tune.keeps_batch = !options.frees_batch;
  tune.most_points = options.points;
  tune.is_over = [&clock, limit] { return clock.seconds() > limit; };
  tune.for_each = OnThreads(options.threads);
  const JobVariants variants = LoadVariants(*options.job, session);
  const Tuning tuned = Tune(variants, tune);
  const TunePoint& winner = tuned.points[tuned.winner];
  const JobSpec& job = variants.base().job;

  std::ostream& text = UsesStandardOutput(targets) ? session.streams.err : session.streams.out;
  text << fmt::format("{}\nstep {}, {} of {} per GPU\n", job.name,
                      FormatTime(tuned.points.front().step),
                      FormatMemory(tuned.points.front().memory), FormatMemory(tuned.memory));
  if (options.frees_batch) text << "steps are compared by GPU time per sample\n";
  text << '\n' << KnobsText(tuned, tune.knobs);
  text << '\n' << WinnerText(tuned);
  text << '\n' << ParetoText(tuned);
  text << '\n'
       << SensitivityText(FindSensitivities(variants, {}),
                          FindSensitivities(variants, winner.changes));
  text << '\n' << FlagsText(FlagsOf(variants.With(winner.changes).job, winner.changes));
  text << '\n' << CountsText(tuned, clock.seconds());
  WriteTable(PointTable(tuned), "stepsim.tune/1",
             {{"job", job.name},
              {"budget_bytes", tuned.memory.value},
              {"refused", static_cast<std::int64_t>(tuned.refused)},
              {"failed", static_cast<std::int64_t>(tuned.failed)},
              {"skipped", static_cast<std::int64_t>(tuned.skipped)}},
             targets, session.streams.out, &text);
}

}  // namespace

void AddTuneCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<TuneCommandOptions>();
  options->job = AddJobOptions(app);
  std::vector<std::string> names;
  for (const Knob& knob : Knobs()) names.push_back(fmt::format("{} ({})", knob.name, knob.doc));
  app.add_option("--knobs", options->knobs,
                 fmt::format("what may be turned, with commas between: {}; default: all",
                             fmt::join(names, ", ")))
      ->type_name("NAME,...")
      ->delimiter(',')
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--budget", options->budget, "memory=SIZE per GPU; default: the job's limit")
      ->type_name("memory=SIZE");
  app.add_option("--time", options->time,
                 "how long to search, 30s by default; only a search that ends before is the same "
                 "on every machine")
      ->type_name("TIME");
  app.add_option("--points", options->points, "simulate so many jobs at most; default: no bound")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_option("-j,--jobs,--threads", options->threads,
                 "threads (default: all cores); changes no result")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--free-batch", options->frees_batch,
               "let micro_batch change the samples of a step; compares GPU time per sample");
  app.add_option("--export", options->exports,
                 "write every job that was simulated as .csv or .json; - is standard output")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.callback([options, &session] { Run(*options, session); });
}

}  // namespace stepsim
