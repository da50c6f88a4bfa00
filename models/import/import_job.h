// How does a framework's own file become a job that can be simulated?
//
//   LoadImportedJob({.files = {{"torchtitan", {"train.toml", text}}}},
//                   {"hardware=h100-sxm-dgx", "nodes=2"}, source)
//
// From weak to strong: the framework's defaults, the JOB file, the framework's files in their
// order,
// --set. What the files have and the job has not stands in the notes and warnings of the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/import/importers.h"
#include "models/spec/config_source.h"
#include "models/spec/job.h"

namespace stepsim {

struct FrameworkFile {
  std::string framework;  // a row of Importers(); "": what the name and the text say
  SourceFile file;
};

struct ImportRequest {
  std::vector<FrameworkFile> files;
  std::optional<SourceFile> job;
};

// Throws ConfigError with every problem at once.
ResolvedJob LoadImportedJob(const ImportRequest& request, const std::vector<std::string>& sets,
                            const ConfigSource& source);

// What `--from` was given: "torchtitan:train.toml" is {"torchtitan", "train.toml"}, a path alone
// has no framework. Throws ConfigError for a framework that is none.
struct FrameworkPath {
  std::string framework;
  std::string path;
};
FrameworkPath ParseFrameworkPath(const std::string& text);

}  // namespace stepsim
