#include "tools/stepsim/job_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <istream>
#include <system_error>
#include <utility>

#include "models/import/import_job.h"
#include "models/spec/load_job.h"
#include "models/spec/remembering_source.h"
#include "sim/base/diagnostics.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

constexpr std::string_view kStandardInput = "-";

// At most one byte more than a configuration may have: the reader then says that it is too large.
std::string ReadLimited(std::istream& in) {
  std::string text(ConfigLimits{}.max_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// Files that all variants of a job share.
struct JobFiles {
  explicit JobFiles(std::unique_ptr<ConfigSource> from) : disk(std::move(from)), source(*disk) {}
  std::unique_ptr<ConfigSource> disk;
  RememberingSource source;
};

// The files that --from names, those that cannot be read as problems.
std::vector<FrameworkFile> ReadFrameworkFiles(const JobOptions& options, const Session& session,
                                              const ConfigSource& source, Diagnostics& problems) {
  std::vector<FrameworkFile> files;
  int from_stdin = options.job == kStandardInput ? 1 : 0;
  for (const std::string& text : options.from) {
    try {
      FrameworkPath path = ParseFrameworkPath(text);
      const bool is_stdin = path.path == kStandardInput;
      if (is_stdin && ++from_stdin > 1) {
        problems.Add({"--from " + text, 0, 0}, "standard input can be read only once");
        continue;
      }
      SourceFile file = is_stdin ? ReadStandardInput(session) : source.ReadFile(path.path);
      if (!file.error.empty()) problems.Add({file.name, 0, 0}, file.error);
      files.push_back({std::move(path.framework), std::move(file)});
    } catch (const ConfigError& error) {
      for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
    }
  }
  return files;
}

}  // namespace

SourceFile ReadStandardInput(const Session& session) {
  return {"<stdin>", ReadLimited(session.streams.in), ""};
}

std::shared_ptr<JobOptions> AddJobOptions(CLI::App& app) {
  auto options = std::make_shared<JobOptions>();
  app.add_option("job", options->job,
                 "job file (YAML or JSON), the name of a shipped job, or -; may be left out with "
                 "--from")
      ->type_name("JOB");
  app.add_option("--from", options->from,
                 fmt::format("a framework's own file, laid over the job: KIND is {}; a FILE alone "
                             "where it is plain; may repeat",
                             fmt::join(ImporterNames(), ", ")))
      ->type_name("KIND:FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--calibration", options->calibration,
                 "measurements of a real system, as `stepsim calibrate` writes them: a name of "
                 "`stepsim list calibrations` or a file, laid over the hardware profile")
      ->type_name("FILE");
  app.add_option("--set", options->sets,
                 "override one field, or take it out with PATH=null; may repeat")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  return options;
}

namespace {

// A path stays one text, whatever YAML makes of its characters.
std::string CalibrationSetting(const std::string& path) {
  std::string quoted = "calibration='";
  for (const char c : path) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

// Loads the job with more settings after those of the command line.
JobVariants::Load MakeLoader(const JobOptions& options, const Session& session) {
  const auto files = std::make_shared<JobFiles>(session.Configs());
  Changes given = options.sets;
  if (!options.calibration.empty()) {
    given.insert(given.begin(), CalibrationSetting(options.calibration));
  }
  const auto sets = [own = std::move(given)](const Changes& changes) {
    Changes all = own;
    all.insert(all.end(), changes.begin(), changes.end());
    return all;
  };
  if (options.from.empty()) {
    if (options.job.empty()) {
      throw ConfigError(Place{}, "found no job, allowed: JOB, or --from KIND:FILE");
    }
    const bool is_stdin = options.job == kStandardInput;
    const SourceFile file =
        is_stdin ? ReadStandardInput(session) : FindJob(options.job, files->source);
    if (!file.error.empty()) throw ConfigError(Place{file.name, 0, 0}, file.error);
    return [=](const Changes& changes) {
      return LoadJobText(file.text, file.name, sets(changes), files->source);
    };
  }
  Diagnostics problems;
  ImportRequest request;
  request.files = ReadFrameworkFiles(options, session, files->source, problems);
  if (!options.job.empty()) {
    request.job = options.job == kStandardInput ? ReadStandardInput(session)
                                                : FindJob(options.job, files->source);
    if (!request.job->error.empty()) problems.Add({request.job->name, 0, 0}, request.job->error);
  }
  problems.ThrowIfAny();
  return [=](const Changes& changes) {
    return LoadImportedJob(request, sets(changes), files->source);
  };
}

}  // namespace

ResolvedJob LoadJob(const JobOptions& options, const Session& session) {
  return MakeLoader(options, session)({});
}

JobVariants LoadVariants(const JobOptions& options, const Session& session) {
  return JobVariants(MakeLoader(options, session));
}

JobVariants LoadVariants(const ConfigNode& job, const std::string& file_name,
                         const std::vector<std::string>& sets, const Session& session) {
  const auto files = std::make_shared<JobFiles>(session.Configs());
  return JobVariants([=](const Changes& changes) {
    Changes all = sets;
    all.insert(all.end(), changes.begin(), changes.end());
    return LoadJobTree(job, file_name, all, files->source);
  });
}

std::vector<std::string> InputFiles(const JobOptions& options) {
  std::vector<std::string> files = {options.job};
  for (const std::string& text : options.from) {
    files.push_back(text.substr(text.find(':') + 1));  // KIND:FILE, or FILE alone
    if (files.back() != text) files.push_back(text);   // which may have a colon
  }
  return files;
}

void RefuseToReplace(const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  Diagnostics problems;
  for (const std::string& output : outputs) {
    for (const std::string& input : inputs) {
      std::error_code none;
      if (!std::filesystem::is_regular_file(input, none)) continue;
      if (!std::filesystem::equivalent(input, output, none)) continue;
      problems.Add({output, 0, 0},
                   "found a file that this command reads, allowed: another; it would be replaced");
      break;
    }
  }
  problems.ThrowIfAny();
}

}  // namespace stepsim
