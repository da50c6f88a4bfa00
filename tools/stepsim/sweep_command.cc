// stepsim sweep: many variants of a job, on all cores, as one shard of many if need be.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "models/spec/expand_job.h"
#include "sim/base/diagnostics.h"
#include "sim/base/nearest.h"
#include "tools/stepsim/command.h"
#include "tools/stepsim/job_options.h"
#include "tools/stepsim/result_table.h"
#include "tools/stepsim/sweep_report.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/progress.h"
#include "tools/sweep/result_file.h"
#include "tools/sweep/run_sweep.h"

namespace stepsim {
namespace {

struct SweepCommandOptions {
  std::shared_ptr<JobOptions> job;
  std::shared_ptr<SweepReportOptions> report;
  SweepOptions sweep;
  std::string output;
  std::string shard;
  std::size_t jobs = 0;
  bool is_resumed = false;
  bool is_forced = false;
};

// ---- What is asked ----

bool IsSweep(const ConfigNode& root) {
  return root.Find("axes") != nullptr || root.Find("zip") != nullptr || root.Find("job") != nullptr;
}

// The file that the user named, where it is a sweep's; nullopt: a job's, or one for LoadVariants to
// complain of.
std::optional<SourceFile> FindSweepFile(const SweepCommandOptions& options,
                                        const Session& session) {
  const std::string& path = options.job->job;
  if (path.empty()) return std::nullopt;
  if (path == "-") {
    if (!options.sweep.vary.empty()) return std::nullopt;
    return ReadStandardInput(session);
  }
  const auto configs = session.Configs();
  SourceFile file = configs->ReadFile(path);
  if (file.error.empty()) {
    Diagnostics ignored;
    const bool is_sweep = IsSweep(configs->ReadTree(file.text, file.name, ignored));
    return is_sweep ? std::optional(std::move(file)) : std::nullopt;
  }
  if (auto named = configs->FindNamed(ConfigKind::kSweeps, path)) return named;
  if (configs->FindNamed(ConfigKind::kJobs, path)) return std::nullopt;
  std::vector<std::string> names = configs->Names(ConfigKind::kSweeps);
  for (std::string& name : configs->Names(ConfigKind::kJobs)) names.push_back(std::move(name));
  throw ConfigError({path, 0, 0},
                    fmt::format("found no such file, sweep or job{}", DidYouMean(path, names)));
}

JobVariants VariantsOf(const Sweep& sweep, const std::string& file_name, const JobOptions& options,
                       const Session& session) {
  if (sweep.job.IsNull()) {
    throw ConfigError({file_name, 0, 0}, "job: missing, allowed: a name, a file or a mapping");
  }
  JobOptions job = options;
  job.sets = sweep.set;
  job.sets.insert(job.sets.end(), options.sets.begin(), options.sets.end());
  if (!sweep.job.IsScalar()) return LoadVariants(sweep.job, file_name, job.sets, session);
  const std::string& name = sweep.job.text;
  job.job = IsPath(name) ? PathFrom(sweep.job.place, name) : name;
  return LoadVariants(job, session);
}

struct Asked {
  Sweep sweep;
  JobVariants variants;
};

Asked Load(const SweepCommandOptions& options, const Session& session) {
  if (const auto file = FindSweepFile(options, session)) {
    if (!file->error.empty()) throw ConfigError({file->name, 0, 0}, file->error);
    Diagnostics duplicates;
    const ConfigNode root = session.Configs()->ReadTree(file->text, file->name, duplicates);
    Sweep sweep = WithOptions(ReadSweep(root, file->name, std::move(duplicates)), options.sweep);
    JobVariants variants = VariantsOf(sweep, file->name, *options.job, session);
    return {std::move(sweep), std::move(variants)};
  }
  if (options.sweep.vary.empty()) {
    throw ConfigError({options.job->job, 0, 0},
                      "found a job, allowed: a sweep's file, or a job with --vary PATH=VALUES such "
                      "as --vary plan.ddp.bucket_cap_mb=1,5,25:400:x2");
  }
  JobVariants variants = LoadVariants(*options.job, session);
  Sweep sweep;
  sweep.name = variants.base().job.name;
  return {WithOptions(std::move(sweep), options.sweep), std::move(variants)};
}

FoundShard ChooseShard(const SweepCommandOptions& options) {
  if (!options.shard.empty()) {
    return {ParseShard(options.shard, {"--shard " + options.shard, 0, 0}), ""};
  }
  const auto found = ShardFromEnvironment([](const char* name) { return std::getenv(name); });
  return found.value_or(FoundShard{});
}

// What is written there cannot be read again.
bool IsStream(const std::string& output) {
  if (IsStandardOutput(output)) return true;
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(output, none);
  return std::filesystem::exists(status) && std::filesystem::is_other(status);
}

void CheckOptions(const SweepCommandOptions& options, const Shard& shard) {
  Diagnostics problems;
  if (!shard.IsWhole() && options.output.empty()) {
    problems.Add({fmt::format("shard {}", shard.Text()), 0, 0},
                 "found no --output, allowed: --output FILE for the rows of this shard, or --shard "
                 "1/1 for the whole sweep");
  }
  if (!shard.IsWhole() && !options.report->exports.empty()) {
    problems.Add(
        {"--export", 0, 0},
        "found beside a shard, allowed: stepsim merge FILE... --export, when all are done");
  }
  const bool is_stream = IsStream(options.output);
  if (is_stream && !options.report->exports.empty()) {
    problems.Add({"--export", 0, 0},
                 fmt::format("found beside --output {}, allowed: one of the two", options.output));
  }
  const auto& exports = options.report->exports;
  if (std::count(exports.begin(), exports.end(), options.output) > 0) {
    problems.Add({options.output, 0, 0}, "found for --output and --export, allowed: two files");
  }
  if (options.is_resumed && (options.is_forced || options.output.empty() || is_stream)) {
    problems.Add({"--resume", 0, 0}, "found without an --output FILE, or beside --force");
  }
  problems.ThrowIfAny();
}

// ---- Running ----

// A file for the time of the run, where no other is asked for.
class TemporaryFile {
 public:
  TemporaryFile() {
    path_ = (std::filesystem::temp_directory_path() / "stepsim-sweep-XXXXXX").string();
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) throw std::runtime_error("cannot make a temporary file: " + path_);
    close(descriptor);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One shard of a sweep, to a file or a stream.
class SweepRun {
 public:
  SweepRun(const Asked& asked, const Grid& grid, const ResultHeader& header,
           const SweepCommandOptions& options, const Session& session)
      : asked_(asked), grid_(grid), header_(header), options_(options), session_(session) {}

  // Rows that were there before.
  std::uint64_t ToFile(const std::string& path) {
    using Existing = ResultFile::Existing;
    const Existing existing = options_.is_resumed  ? Existing::kResume
                              : options_.is_forced ? Existing::kReplace
                                                   : Existing::kRefuse;
    ResultFile file(path, header_, existing);
    PointSequence points(grid_, header_.shard);
    const std::uint64_t before =
        file.SkipDone([&](std::uint64_t index) { return points.Next() == index; });
    Run(points, before, [&](std::string_view lines) { file.Append(lines); });
    file.Finish();
    return before;
  }

  void ToStream(std::ostream& out) {
    out << WriteHeader(header_);
    PointSequence points(grid_, header_.shard);
    Run(points, 0, [&](std::string_view lines) {
      if (!(out << lines)) throw std::runtime_error("cannot write to standard output");
    });
  }

  const SweepCounts& counts() const { return counts_; }

 private:
  void Run(PointSequence& points, std::uint64_t before,
           const std::function<void(std::string_view)>& write) {
    Progress progress(session_.streams.err, header_.shard_points, before,
                      {session_.streams.is_error_terminal, options_.report->is_quiet, Seconds});
    counts_ = RunSweep(grid_, asked_.variants, points, header_.shard_points - before, options_.jobs,
                       [&](std::string_view lines, std::uint64_t count) {
                         write(lines);
                         progress.Advance(count);
                       });
    progress.Finish();
  }

  const Asked& asked_;
  const Grid& grid_;
  const ResultHeader& header_;
  const SweepCommandOptions& options_;
  const Session& session_;
  SweepCounts counts_;
};

std::string Describe(const SweepCounts& counts, std::uint64_t before) {
  std::string text = fmt::format("{} points", counts.points + before);
  if (before > 0) text += fmt::format(", {} of them were there", before);
  if (counts.errors > 0) {
    text += fmt::format(", {} errors (the first: {})", counts.errors, counts.first_error);
  }
  if (counts.filtered > 0) text += fmt::format(", {} left out by filters", counts.filtered);
  return text;
}

void RunCommand(const SweepCommandOptions& options, const Session& session) {
  CheckExports(*options.report);
  const FoundShard found = ChooseShard(options);
  CheckOptions(options, found.shard);
  std::vector<std::string> outputs = options.report->exports;
  outputs.push_back(options.output);
  RefuseToReplace(InputFiles(*options.job), outputs);
  const Asked asked = Load(options, session);
  const Grid grid(asked.sweep);
  const ResultHeader header = MakeHeader(grid, found.shard, asked.variants, STEPSIM_VERSION);
  SweepRun run(asked, grid, header, options, session);
  const bool is_quiet = options.report->is_quiet;
  const bool is_stream = !options.output.empty() && IsStandardOutput(options.output);
  std::ostream& text = is_stream ? session.streams.err : session.streams.out;
  if (!found.source.empty() && !is_quiet) {
    text << fmt::format("shard {} by {}: {} of {} points\n", found.shard.Text(), found.source,
                        header.shard_points, header.points);
  }
  if (is_stream) return run.ToStream(session.streams.out);
  const TemporaryFile temporary;
  const bool is_kept = !options.output.empty();
  const std::string path = is_kept ? ShardFileName(options.output, found.shard) : temporary.path();
  const std::uint64_t before = run.ToFile(path);
  if (is_kept && !is_quiet) {
    session.streams.out << fmt::format("{}: {}\n", path, Describe(run.counts(), before));
  }
  if (found.shard.IsWhole() && !IsStream(path))
    ReportSweep(SweepResults({path}), *options.report, session);
}

void AddOptions(CLI::App& app, SweepCommandOptions& options) {
  app.get_option("job")->description(
      "sweep's file (YAML or JSON), the name of a shipped sweep, or - ; with --vary also a job");
  const auto repeat = [&app](const char* name, std::vector<std::string>& values, const char* doc,
                             const char* type) {
    app.add_option(name, values, doc)
        ->type_name(type)
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
  };
  repeat("--vary", options.sweep.vary,
         "an axis: a list, ranges START:END:xFACTOR and START:END:+STEP, or both; may repeat for a "
         "grid, the last one runs fastest",
         "PATH=VALUES");
  repeat(
      "--where", options.sweep.where,
      "keep only points for which this holds, such as 'nodes * gpus_per_node <= 64' or 'memory < "
      "80 GiB'; may repeat",
      "CONDITION");
  repeat("--metric", options.sweep.metrics, "keep only this metric of a point; may repeat",
         "METRIC");
  app.add_option("-o,--output", options.output,
                 "append the rows to this file, one JSON line each, safe against kills; - is "
                 "standard output (default: none are kept)")
      ->type_name("FILE.jsonl");
  app.add_flag("--resume", options.is_resumed, "go on with --output where it ends");
  app.add_flag("--force", options.is_forced, "replace --output if it is there");
  app.add_option("--shard", options.shard,
                 "run only the I-th of N parts, from 1; the file's name gets it. Default: "
                 "SLURM_ARRAY_TASK_ID of SLURM_ARRAY_TASK_COUNT, SLURM_PROCID of SLURM_NTASKS")
      ->type_name("I/N");
  app.add_option("-j,--jobs", options.jobs, "threads (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
}

}  // namespace

void AddSweepCommand(CLI::App& app, const Session& session) {
  const auto options = std::make_shared<SweepCommandOptions>();
  options->job = AddJobOptions(app);
  AddOptions(app, *options);
  options->report = AddSweepReportOptions(app);
  app.callback([options, &session] {
    options->sweep.curve = options->report->curve;  // checked before anything runs
    RunCommand(*options, session);
  });
}

}  // namespace stepsim
