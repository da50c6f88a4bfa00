#include "models/import/import_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "models/spec/load_cluster.h"
#include "models/spec/load_job.h"
#include "sim/base/nearest.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// ---- Which framework? ----

bool LooksLike(const Importer& importer, const SourceFile& file) {
  const auto is_in_name = [&](std::string_view s) { return file.name.ends_with(s); };
  const auto is_in_text = [&](std::string_view m) {
    return file.text.find(m) != std::string::npos;
  };
  return std::any_of(importer.suffixes.begin(), importer.suffixes.end(), is_in_name) &&
         std::any_of(importer.marks.begin(), importer.marks.end(), is_in_text);
}

// Throws ConfigError unless exactly one framework has such files.
const Importer& ImporterOf(const FrameworkFile& from) {
  if (const Importer* named = FindImporter(from.framework)) return *named;
  std::vector<const Importer*> fitting;
  for (const Importer& importer : Importers()) {
    if (LooksLike(importer, from.file)) fitting.push_back(&importer);
  }
  if (fitting.size() == 1) return *fitting.front();
  const std::vector<std::string> names = ImporterNames();
  throw ConfigError({from.file.name, 0, 0},
                    fmt::format("found a file that {}, allowed: --from KIND:{} with a KIND of {}",
                                fitting.empty() ? "looks like that of no known framework"
                                                : "may be of several frameworks",
                                from.file.name, fmt::join(names, ", ")));
}

// ---- What is known without the framework's file? ----

// The tree of the JOB file; an empty mapping where there is none or it cannot be read, which is
// reported when it is loaded.
ConfigNode ReadJobQuietly(const std::optional<SourceFile>& job) {
  if (!job) return MakeMapping();
  try {
    Diagnostics duplicates;
    ConfigNode root = ReadConfig(job->text, job->name, duplicates);
    return root.IsMapping() ? root : MakeMapping();
  } catch (const ConfigError&) {
    return MakeMapping();
  }
}

class KnownValues {
 public:
  KnownValues(ConfigNode job, std::vector<Setting> sets, const ConfigSource& source)
      : job_(std::move(job)), sets_(std::move(sets)), source_(source) {}

  void Add(const std::vector<Setting>& settings) {
    imported_.insert(imported_.end(), settings.begin(), settings.end());
  }

  bool Has(const std::string& path) const {
    const auto is_path = [&](const Setting& s) { return s.path == path && !s.value.IsNull(); };
    const auto find_in = [&](const std::vector<Setting>& list) {
      return std::any_of(list.begin(), list.end(), is_path);
    };
    return find_in(sets_) || find_in(imported_) || IsInJob(path);
  }

  // GPUs of the cluster, where hardware and nodes are known.
  std::optional<std::int64_t> Gpus() const {
    constexpr std::string_view kPaths[] = {"hardware", "nodes", "gpus_per_node"};
    std::vector<Setting> machine;
    for (const std::string_view path : kPaths) {
      if (const ConfigEntry* entry = job_.Find(path)) {
        machine.push_back({std::string(path), entry->value, entry->value.place});
      }
    }
    for (const std::vector<Setting>* list : {&imported_, &sets_}) {
      for (const Setting& setting : *list) {
        const bool is_wanted = setting.path == "hardware.gpus_per_node" ||
                               std::count(std::begin(kPaths), std::end(kPaths), setting.path) > 0;
        if (is_wanted && !setting.value.IsNull()) machine.push_back(setting);
      }
    }
    try {
      return LoadCluster(machine, source_).ranks();
    } catch (const ConfigError&) {
      return std::nullopt;  // reported when the job is loaded
    }
  }

 private:
  bool IsInJob(std::string_view path) const {
    const ConfigNode* node = &job_;
    for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
      node = node->FindValue(path.substr(0, dot));
      if (node == nullptr) return false;
      path.remove_prefix(dot + 1);
    }
    const ConfigNode* value = node->FindValue(path);
    return value != nullptr && !value->IsNull();
  }

  ConfigNode job_;
  std::vector<Setting> imported_;
  std::vector<Setting> sets_;
  const ConfigSource& source_;
};

// ---- What is said about it? ----

// "logging (metrics.log_freq, job.dump_folder); checkpoints (...)": reasons in their first order.
std::string UnusedText(const ImportedJob& job) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const UnusedKey& key : job.unused) {
    const auto same = [&](const auto& group) { return group.first == key.reason; };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) {
      groups.emplace_back(key.reason, key.key);
    } else {
      found->second += ", " + key.key;
    }
  }
  std::string text =
      fmt::format("{}: {} key{} without effect on the time of a step: ", BaseName(job.file),
                  job.unused.size(), job.unused.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : "; ", groups[i].first, groups[i].second);
  }
  return text;
}

std::string UnknownText(const ImportedJob& job) {
  std::vector<std::string> keys;
  for (const UnusedKey& key : job.unknown) {
    keys.push_back(
        key.nearest.empty() || key.nearest == key.key
            ? fmt::format("{} (line {})", key.key, key.place.line)
            : fmt::format("{} (line {}; nearest known: {})", key.key, key.place.line, key.nearest));
  }
  return fmt::format("{}: not understood and left out: {}", BaseName(job.file),
                     fmt::join(keys, ", "));
}

// One problem for all that is missing, with the options that give it.
void ReportMissing(const ImportedJob& job, const KnownValues& known, bool has_job,
                   Diagnostics& problems) {
  std::vector<std::string> paths;
  std::vector<std::string> options;
  for (const MissingValue& need : job.needs) {
    // A JOB file without nodes means one.
    if (known.Has(need.path) || (has_job && need.path == "nodes")) continue;
    paths.push_back(need.remark.empty() ? need.path
                                        : fmt::format("{} ({})", need.path, need.remark));
    options.push_back(fmt::format("--set {}={}", need.path, need.example));
  }
  if (paths.empty()) return;
  problems.Add({job.file, 0, 0},
               fmt::format("a file of {} does not say: {}; give {} in a JOB file or with, for "
                           "example, {}",
                           job.framework, fmt::join(paths, ", "), paths.size() == 1 ? "it" : "them",
                           fmt::join(options, " ")));
}

// A warning has few lines in a summary: a long list is a note, which the warning points to.
void AddUnknown(const ImportedJob& job, JobLayers& layers) {
  constexpr std::size_t kMostInAWarning = 4;
  if (job.unknown.empty()) return;
  if (job.unknown.size() <= kMostInAWarning) return layers.warnings.push_back(UnknownText(job));
  layers.warnings.push_back(
      fmt::format("{}: {} keys not understood and left out, see the note: {}, ...",
                  BaseName(job.file), job.unknown.size(), job.unknown.front().key));
  layers.notes.push_back(UnknownText(job));
}

void AddLayer(const ImportedJob& job, JobLayers& layers) {
  layers.under.insert(layers.under.end(), job.under.begin(), job.under.end());
  layers.over.insert(layers.over.end(), job.over.begin(), job.over.end());
  for (const std::string& remark : job.remarks) {
    layers.notes.push_back(fmt::format("{}: {}", BaseName(job.file), remark));
  }
  if (!job.unused.empty()) layers.notes.push_back(UnusedText(job));
  AddUnknown(job, layers);
}

}  // namespace

ResolvedJob LoadImportedJob(const ImportRequest& request, const std::vector<std::string>& sets,
                            const ConfigSource& source) {
  Diagnostics ignored;  // reported when the job is loaded
  KnownValues known(ReadJobQuietly(request.job), ParseSettings(sets, ignored), source);
  JobLayers layers;
  Diagnostics problems;
  Diagnostics missing;
  std::vector<ImportedJob> imported;
  for (const FrameworkFile& from : request.files) {
    try {
      const Importer& importer = ImporterOf(from);
      imported.push_back(importer.import(from.file, {known.Gpus(), &source}, problems));
      known.Add(imported.back().over);
      AddLayer(imported.back(), layers);
    } catch (const ConfigError& error) {
      for (const Diagnostic& d : error.diagnostics()) problems.Add(d.place, d.message);
    }
  }
  for (const ImportedJob& job : imported) {
    ReportMissing(job, known, request.job.has_value(), problems);
  }
  // A job that lacks values would only repeat it.
  problems.ThrowIfAny();
  const std::string name = request.job ? request.job->name : request.files.front().file.name;
  return LoadLayeredJob(request.job ? request.job->text : "", name, layers, sets, source);
}

FrameworkPath ParseFrameworkPath(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {"", text};
  const std::string kind = text.substr(0, colon);
  if (FindImporter(kind) != nullptr) return {kind, text.substr(colon + 1)};
  if (kind.find_first_of("/.") != std::string::npos) return {"", text};
  const std::vector<std::string> names = ImporterNames();
  const std::string nearest = Nearest(kind, names);
  throw ConfigError(
      {"--from " + text, 0, 0},
      fmt::format("found the framework '{}', allowed: {}{}", kind, fmt::join(names, ", "),
                  nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

}  // namespace stepsim
