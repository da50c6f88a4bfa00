// How does a command that is about a job take it? JOB, --from and --set, the same for all.
//
//   const auto job = AddJobOptions(app);
//   app.callback([job, &session] { RunStep(LoadJob(*job, session)); });
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "models/spec/job.h"
#include "models/study/variants.h"
#include "tools/stepsim/command.h"

namespace stepsim {

struct JobOptions {
  std::string job;
  std::vector<std::string> from;
  std::vector<std::string> sets;
  std::string calibration;  // "": the job's own
};

std::shared_ptr<JobOptions> AddJobOptions(CLI::App& app);

// Throws ConfigError with every problem at once.
ResolvedJob LoadJob(const JobOptions& options, const Session& session);

// What is piped in, as far as a configuration may go.
SourceFile ReadStandardInput(const Session& session);

// A job that stands as a mapping in another file.
JobVariants LoadVariants(const ConfigNode& job, const std::string& file_name,
                         const std::vector<std::string>& sets, const Session& session);

// The same for many variants of the job: files and standard input are read once.
JobVariants LoadVariants(const JobOptions& options, const Session& session);

// JOB and --from, as paths; names among them are no files.
std::vector<std::string> InputFiles(const JobOptions& options);

// Throws ConfigError when writing an output would replace one of the inputs.
void RefuseToReplace(const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs);

}  // namespace stepsim
