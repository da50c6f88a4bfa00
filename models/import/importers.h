// Which files of frameworks can be read as a job? One row each.
//
//   ImportedJob imported = FindImporter("torchtitan")->import(
//       {"train.toml", text}, {.gpus = 16}, problems);
//   imported.over   {batch.sequence_length = 8192 at train.toml:21, ...}
//
// To add a framework: one file with a table of its keys, one row in importers.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/config_source.h"
#include "models/spec/expand_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {

// A value that the framework's file cannot say and a job cannot do without.
struct MissingValue {
  std::string path;     // "hardware"
  std::string example;  // "h100-sxm-dgx"
  std::string remark;   // "'auto' at line 7", or ""
};

// A key of the file that the job does not have.
struct UnusedKey {
  std::string key;
  std::string reason;   // why it does not matter; "" for a key that is not understood
  std::string nearest;  // of a key that is not understood: what may have been meant
  Place place;
};

// What a framework's file says about a job.
struct ImportedJob {
  std::string framework;  // "torchtitan"
  std::string file;
  std::vector<Setting> under;       // the framework's own defaults
  std::vector<Setting> over;        // what the file says
  std::vector<MissingValue> needs;  // unless somebody else says it
  std::vector<UnusedKey> unused, unknown;
  std::vector<std::string> remarks;  // what is taken over only in part
};

// What an importer may ask about the rest of the job.
struct ImportSurroundings {
  std::optional<std::int64_t> gpus;      // of the cluster, as far as JOB and --set say
  const ConfigSource* source = nullptr;  // files that the file names
};

struct Importer {
  std::string_view name;
  std::string_view doc;
  std::vector<std::string_view> suffixes;  // of file names
  std::vector<std::string_view> marks;     // keys that only such a file has
  // Mistakes and what stepsim cannot simulate go to `problems`.
  ImportedJob (*import)(const SourceFile& file, const ImportSurroundings& surroundings,
                        Diagnostics& problems);
};

std::span<const Importer> Importers();
const Importer* FindImporter(std::string_view name);  // nullptr: none
std::vector<std::string> ImporterNames();

ImportedJob ImportAccelerate(const SourceFile& file, const ImportSurroundings& surroundings,
                             Diagnostics& problems);
ImportedJob ImportDeepspeed(const SourceFile& file, const ImportSurroundings& surroundings,
                            Diagnostics& problems);
ImportedJob ImportMegatron(const SourceFile& file, const ImportSurroundings& surroundings,
                           Diagnostics& problems);
ImportedJob ImportTorchtitan(const SourceFile& file, const ImportSurroundings& surroundings,
                             Diagnostics& problems);

}  // namespace stepsim
