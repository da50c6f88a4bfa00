#include "models/spec/expand_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/spec/hf_config.h"
#include "sim/base/nearest.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

constexpr int kDeepestBase = 8;  // base: of a base: ...; a file may name itself

void Append(const ConfigError& error, Diagnostics& diagnostics) {
  for (const Diagnostic& d : error.diagnostics()) diagnostics.Add(d.place, d.message);
}

class Expander {
 public:
  Expander(const ConfigSource& source, Diagnostics& diagnostics)
      : source_(source), diagnostics_(diagnostics) {}

  // Null when there was a problem.
  ConfigNode Expand(const ConfigNode& reference, ConfigKind kind, const std::string& path,
                    int depth = 0) {
    if (depth > kDeepestBase) {
      diagnostics_.Add(reference.place,
                       fmt::format("{}: found more than {} bases of bases", path, kDeepestBase));
      return {};
    }
    if (reference.IsScalar()) return ExpandFile(reference, kind, path, depth);
    if (!reference.IsMapping()) {
      diagnostics_.Add(reference.place,
                       fmt::format("{}: found {}, allowed: a name, a file or a mapping", path,
                                   DescribeFound(reference)));
      return {};
    }
    return ExpandMapping(reference, kind, path, depth);
  }

 private:
  ConfigNode ExpandMapping(ConfigNode node, ConfigKind kind, const std::string& path, int depth) {
    node = PrepareMapping(std::move(node), kind, path, diagnostics_);
    const ConfigNode* base = node.FindValue("base");
    if (base == nullptr) return node;
    if (!base->IsScalar()) {
      diagnostics_.Add(base->place, fmt::format("{}.base: found {}, allowed: a name or a file",
                                                path, DescribeFound(*base)));
      return {};
    }
    ConfigNode expanded = Expand(*base, kind, path, depth + 1);
    if (expanded.IsNull()) return {};
    node.Remove("base");
    expanded.place = node.place;
    return Merge(std::move(expanded), node);
  }

  ConfigNode ExpandFile(const ConfigNode& reference, ConfigKind kind, const std::string& path,
                        int depth) {
    const std::optional<SourceFile> file = FindFile(reference, kind, path);
    if (!file) return {};
    if (!file->error.empty()) {
      diagnostics_.Add(reference.place, fmt::format("{}: {}: {}", path, file->name, file->error));
      return {};
    }
    try {
      ConfigNode node = source_.ReadTree(file->text, file->name, diagnostics_);
      if (node.IsMapping()) return ExpandMapping(std::move(node), kind, path, depth);
      diagnostics_.Add(node.place,
                       fmt::format("found {}, allowed: a mapping", DescribeFound(node)));
    } catch (const ConfigError& error) {
      Append(error, diagnostics_);
    }
    return {};
  }

  std::optional<SourceFile> FindFile(const ConfigNode& reference, ConfigKind kind,
                                     const std::string& path) {
    const std::string& name = reference.text;
    if (IsPath(name)) return source_.ReadFile(PathFrom(reference.place, name));
    if (auto file = source_.FindNamed(kind, name)) return file;
    const std::vector<std::string> names = source_.Names(kind);
    const std::vector<std::string> meant = NamesWithWords(name, names);
    if (meant.size() == 1) return source_.FindNamed(kind, meant.front());
    if (!meant.empty()) {
      diagnostics_.Add(reference.place,
                       fmt::format("{}: found {}, which may mean {}; allowed: the name of one",
                                   path, DescribeFound(reference), fmt::join(meant, ", ")));
      return std::nullopt;
    }
    const std::string nearest = Nearest(name, names);
    diagnostics_.Add(
        reference.place,
        fmt::format("{}: found {}, allowed: a file, a mapping, {}{}", path,
                    DescribeFound(reference), fmt::join(names, ", "),
                    nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
    return std::nullopt;
  }

  const ConfigSource& source_;
  Diagnostics& diagnostics_;
};

// `sources:` says where values come from: a path to a text each, nothing else.
void CheckSources(const ConfigNode& sources, std::string_view path, Diagnostics& diagnostics) {
  if (!sources.IsMapping()) {
    diagnostics.Add(sources.place,
                    fmt::format("{}: found {}, allowed: a mapping of a path to its source", path,
                                DescribeFound(sources)));
  }
  for (const ConfigEntry& entry : sources.entries) {
    if (entry.value.IsScalar()) continue;
    diagnostics.Add(entry.key_place, fmt::format("{}.{}: found {}, allowed: a text", path,
                                                 entry.key, DescribeFound(entry.value)));
  }
}

bool IsReference(std::string_view path) {
  return path == "model" || path == "hardware" || path == "network" || path == "calibration";
}

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// Curves of the profile stay where the calibration has none for their type, those of collectives
// behind the calibration's: the first that matches holds.
ConfigNode JoinLists(const ConfigNode& above, const ConfigNode& below, bool by_dtype) {
  ConfigNode joined = above;
  const auto dtype_of = [](const ConfigNode& item) {
    const ConfigNode* dtype = item.FindValue("dtype");
    return dtype == nullptr ? std::string() : dtype->text;
  };
  for (const ConfigNode& item : below.items) {
    const bool is_replaced =
        by_dtype && std::any_of(above.items.begin(), above.items.end(),
                                [&](const ConfigNode& a) { return dtype_of(a) == dtype_of(item); });
    if (!is_replaced) joined.items.push_back(item);
  }
  return joined;
}

void JoinList(ConfigNode& above, const ConfigNode* below, std::string_view key, bool by_dtype) {
  ConfigEntry* entry = above.IsMapping() ? above.Find(key) : nullptr;
  const ConfigNode* other = below == nullptr ? nullptr : below->FindValue(key);
  if (entry == nullptr || other == nullptr) return;
  if (!entry->value.IsSequence() || !other->IsSequence()) return;
  entry->value = JoinLists(entry->value, *other, by_dtype);
}

// The one arrow by which measurements enter the costs: over the profile, under every --set.
void LayCalibration(ExpandedJob& job, Diagnostics& diagnostics) {
  for (const std::string_view key : {"hardware", "host"}) {
    const ConfigEntry* entry = job.calibration.Find(key);
    if (entry == nullptr || entry->value.IsMapping()) continue;
    diagnostics.Add(entry->key_place, fmt::format("calibration.{}: found {}, allowed: a mapping",
                                                  key, DescribeFound(entry->value)));
    return;
  }
  const ConfigNode* hardware = job.calibration.FindValue("hardware");
  if (hardware != nullptr && !job.hardware.IsNull()) {
    ConfigNode overlay = *hardware;
    JoinList(overlay, &job.hardware, "collective_curves", false);
    if (ConfigEntry* gpu = overlay.Find("gpu")) {
      JoinList(gpu->value, job.hardware.FindValue("gpu"), "gemm", true);
    }
    job.hardware = Merge(std::move(job.hardware), overlay);
  }
  const ConfigNode* host = job.calibration.FindValue("host");
  if (host == nullptr) return;
  const ConfigEntry* own = job.job.Find("host");
  const bool is_merged = own != nullptr && own->value.IsMapping();
  job.job.Set("host", own != nullptr ? own->key_place : host->place,
              is_merged ? Merge(*host, own->value) : *host);
}

// Puts one deeper setting where it belongs; what could not be expanded is left alone.
void Apply(const Setting& setting, ExpandedJob& job) {
  constexpr std::string_view kHardware = "hardware.";
  constexpr std::string_view kModel = "model.";
  constexpr std::string_view kNetwork = "network.";
  const std::string_view path = setting.path;
  if (StartsWith(path, kHardware)) {
    if (job.hardware.IsNull()) return;
    SetPath(job.hardware, path.substr(kHardware.size()), setting.value, setting.place);
  } else if (StartsWith(path, kModel)) {
    if (job.model.IsNull()) return;
    SetPath(job.model, path.substr(kModel.size()), setting.value, setting.place);
  } else if (StartsWith(path, kNetwork)) {
    if (job.hardware.IsNull()) return;
    SetPath(job.hardware, path, setting.value, setting.place);
  } else {
    SetPath(job.job, path, setting.value, setting.place);
  }
}

}  // namespace

bool IsPath(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml") ||
         text.ends_with(".json");
}

std::string PathFrom(const Place& place, const std::string& path) {
  const std::size_t slash = place.file.find_last_of('/');
  const bool is_set = place.file.rfind("--", 0) == 0;
  if (path[0] == '/' || is_set || slash == std::string::npos) return path;
  return place.file.substr(0, slash + 1) + path;
}

std::vector<Setting> ParseSettings(const std::vector<std::string>& sets, Diagnostics& diagnostics) {
  std::vector<Setting> settings;
  for (const std::string& set : sets) {
    constexpr std::size_t kLongest = 80;
    const bool is_long = set.size() > kLongest;
    const Place place{"--set " + (is_long ? set.substr(0, kLongest) + "..." : set), 0, 0};
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      diagnostics.Add(place,
                      "found no path=value, allowed: for example "
                      "'plan.ddp.bucket_cap_mb=25'");
      continue;
    }
    if (equals + 1 == set.size()) {
      diagnostics.Add(place, "found no value, allowed: a value, or null to take the key out");
      continue;
    }
    try {
      settings.push_back(
          {set.substr(0, equals), ReadSetValue(set.substr(equals + 1), place), place});
    } catch (const ConfigError& error) {
      Append(error, diagnostics);
    }
  }
  return settings;
}

ExpandedJob ExpandJob(ConfigNode job, const std::vector<Setting>& settings,
                      const ConfigSource& source, Diagnostics& diagnostics) {
  for (const Setting& setting : settings) {
    if (IsReference(setting.path)) job.Set(setting.path, setting.place, setting.value);
  }
  ExpandedJob expanded;
  Expander expander(source, diagnostics);
  if (const ConfigNode* model = job.FindValue("model")) {
    expanded.model = expander.Expand(*model, ConfigKind::kModels, "model");
  }
  if (const ConfigNode* hardware = job.FindValue("hardware")) {
    expanded.hardware = expander.Expand(*hardware, ConfigKind::kHardware, "hardware");
  }
  const ConfigEntry* network = job.Find("network");
  if (network != nullptr && !network->value.IsNull()) {
    ConfigNode overlay = expander.Expand(network->value, ConfigKind::kNetworks, "network");
    if (!overlay.IsNull() && !expanded.hardware.IsNull()) {
      ConfigNode wrapper = MakeMapping(expanded.hardware.place);
      wrapper.Set("network", network->key_place, std::move(overlay));
      expanded.hardware = Merge(std::move(expanded.hardware), wrapper);
    }
  }
  const ConfigNode* calibration = job.FindValue("calibration");
  const bool is_calibrated = calibration != nullptr && !calibration->IsNull();
  if (is_calibrated) {
    expanded.calibration = expander.Expand(*calibration, ConfigKind::kCalibrations, "calibration");
  }
  expanded.job = std::move(job);
  if (!expanded.calibration.IsNull()) LayCalibration(expanded, diagnostics);
  for (const Setting& setting : settings) {
    if (IsReference(setting.path)) continue;
    try {
      Apply(setting, expanded);
    } catch (const ConfigError& error) {
      Append(error, diagnostics);
    }
  }
  return expanded;
}

ConfigNode PrepareMapping(ConfigNode node, ConfigKind kind, std::string_view path,
                          Diagnostics& diagnostics) {
  if (kind == ConfigKind::kModels && IsHfConfig(node)) return ModelFromHfConfig(node, diagnostics);
  if (const ConfigNode* sources = node.FindValue("sources")) {
    CheckSources(*sources, JoinPath(path, "sources"), diagnostics);
    node.Remove("sources");
  }
  return node;
}

}  // namespace stepsim
