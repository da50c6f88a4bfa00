// How does a file become a job? Read, replace names by what they name, apply --set, check,
// complete.
//
//   DirectoryConfigSource source("configs");
//   ResolvedJob resolved = LoadJob("configs/jobs/gpt2_ddp_8xa100.yaml", {"nodes=2"}, source);
//
// Throws ConfigError with every problem at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/spec/config_source.h"
#include "models/spec/expand_job.h"
#include "models/spec/job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {

// Values that lie under and over those of a job's file: a framework's own configuration
// (models/import). From weak to strong: under, the file, over, --set.
struct JobLayers {
  std::vector<Setting> under;
  std::vector<Setting> over;
  std::vector<std::string> notes, warnings;  // for the report
  std::vector<Diagnostic> problems;          // found so far: the job fails with them
};

// `path` is a file, or the name of a job in configs/jobs. `sets` are "path=value".
ResolvedJob LoadJob(const std::string& path, const std::vector<std::string>& sets,
                    const ConfigSource& source);

// The same for a text (stdin); `file_name` is how messages call it.
ResolvedJob LoadJobText(std::string_view text, const std::string& file_name,
                        const std::vector<std::string>& sets, const ConfigSource& source);

// The same for a tree that was read before.
ResolvedJob LoadJobTree(const ConfigNode& root, const std::string& file_name,
                        const std::vector<std::string>& sets, const ConfigSource& source);

// What `path` means in LoadJob; `error` is set where it means nothing.
SourceFile FindJob(const std::string& path, const ConfigSource& source);

// `text` may be empty here: then the layers alone say what the job is.
ResolvedJob LoadLayeredJob(std::string_view text, const std::string& file_name,
                           const JobLayers& layers, const std::vector<std::string>& sets,
                           const ConfigSource& source);

// Single files of configs/, for `stepsim list` and tests.
HardwareSpec LoadHardwareText(std::string_view text, const std::string& file_name);
// Every readable profile of configs/hardware, by its file's name.
std::vector<HardwareSpec> LoadAllHardware(const ConfigSource& source);
NetworkSpec LoadNetworkText(std::string_view text, const std::string& file_name);
ModelSpec LoadModelText(std::string_view text, const std::string& file_name);
CollectiveCorrections LoadCorrectionsText(std::string_view text, const std::string& file_name);
// Where a calibration comes from and how well it fits; its values are read with a job's hardware.
CalibrationSpec LoadCalibrationText(std::string_view text, const std::string& file_name);

// What `collectives.corrections` names: a file, or a name of configs/collectives; "none" and a
// default that `source` does not have are an empty table. Throws ConfigError.
CollectiveCorrections LoadCorrections(const std::string& name, const ConfigSource& source);

}  // namespace stepsim
