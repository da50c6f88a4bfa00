#include "models/spec/load_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "models/spec/check_job.h"
#include "models/spec/correction_key.h"
#include "models/spec/expand_job.h"
#include "models/spec/schedule_file.h"
#include "models/spec/spec_fields.h"
#include "sim/base/nearest.h"
#include "sim/config/read_config.h"
#include "sim/config/read_fields.h"

namespace stepsim {
namespace {

// Name and description, and either a transformer or a list of layers.
ModelSpec ReadModel(const ConfigNode& node, const std::string& path, FieldReading& reading) {
  ModelSpec model;
  ReadStruct(node, ModelFields(), path, model, reading);
  const ConfigNode* transformer = node.FindValue("transformer");
  const ConfigEntry* layers = node.Find("layers");
  if (transformer != nullptr) {
    auto& spec = model.network.emplace<TransformerSpec>();
    const std::string spec_path = JoinPath(path, "transformer");
    if (transformer->IsMapping()) {
      ReadStruct(*transformer, TransformerFields(), spec_path, spec, reading);
    } else {
      reading.diagnostics.Add(
          transformer->place,
          fmt::format("{}: found {}, allowed: a mapping", spec_path, DescribeFound(*transformer)));
    }
    for (const char* key : {"layers", "tokens_per_sample"}) {
      if (const ConfigEntry* entry = node.Find(key)) {
        reading.diagnostics.Add(
            entry->key_place, fmt::format("{}: found beside 'transformer', allowed: one of the two",
                                          JoinPath(path, key)));
      }
    }
  } else if (layers != nullptr) {
    auto& list = model.network.emplace<LayerListSpec>();
    ReadStruct(node, LayerListFields(), path, list, reading, UnknownKeys::kIgnore);
  } else {
    reading.diagnostics.Add(node.place,
                            fmt::format("{}: missing, allowed: 'transformer' or 'layers'",
                                        path.empty() ? "network" : path));
  }
  return model;
}

void Remove(ConfigNode& root, std::string_view path) {
  ConfigNode* node = &root;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    ConfigEntry* entry = node->Find(path.substr(0, dot));
    if (entry == nullptr) return;
    node = &entry->value;
    path.remove_prefix(dot + 1);
  }
  node->Remove(path);
}

ConfigNode WriteModel(const ModelSpec& model) {
  ConfigNode node = WriteStruct(ModelFields(), model);
  if (const auto* spec = std::get_if<TransformerSpec>(&model.network)) {
    node.Set("transformer", {}, WriteStruct(TransformerFields(), *spec));
    return node;
  }
  for (ConfigEntry& entry :
       WriteStruct(LayerListFields(), std::get<LayerListSpec>(model.network)).entries) {
    node.Set(entry.key, {}, std::move(entry.value));
  }
  return node;
}

// Reading this as a job gives the same job again.
std::string WriteResolved(const JobSpec& job) {
  ConfigNode fields = WriteStruct(JobFields(), job);
  ConfigNode root = MakeMapping();
  root.Set("name", {},
           fields.FindValue("name") != nullptr ? *fields.FindValue("name") : MakeText(job.name));
  root.Set("model", {}, WriteModel(job.model));
  root.Set("hardware", {}, WriteStruct(HardwareFields(), job.hardware));
  // Its values lie over the hardware already.
  if (!job.calibration.name.empty()) {
    root.Set("calibration", {}, WriteStruct(CalibrationFields(), job.calibration));
  }
  for (ConfigEntry& entry : fields.entries) root.Set(entry.key, {}, std::move(entry.value));
  // The table itself, so that the result needs no file.
  const CollectiveCorrections& corrections = job.collectives.correction_table;
  ConfigEntry* collectives = root.Find("collectives");
  if (collectives != nullptr && !corrections.rows.empty()) {
    collectives->value.Set("corrections", {}, WriteStruct(CorrectionFields(), corrections));
  }
  for (const std::string_view path : KeysWithoutEffect(job)) Remove(root, path);
  return WriteJson(root);
}

// A table written out in the job, as a resolved job has it; its name takes its place.
std::optional<CollectiveCorrections> TakeInlineCorrections(ConfigNode& job, FieldReading& reading) {
  ConfigEntry* collectives = job.IsMapping() ? job.Find("collectives") : nullptr;
  if (collectives == nullptr || !collectives->value.IsMapping()) return std::nullopt;
  ConfigEntry* entry = collectives->value.Find("corrections");
  if (entry == nullptr || !entry->value.IsMapping()) return std::nullopt;
  CollectiveCorrections table;
  FieldReading inline_reading;
  ReadStruct(entry->value, CorrectionFields(), "collectives.corrections", table, inline_reading);
  for (const Diagnostic& problem : inline_reading.diagnostics.list()) {
    reading.diagnostics.Add(problem.place, problem.message);
  }
  entry->value = MakeText(table.name);
  return table;
}

// By file, in the order in which the files first had a problem, then by line.
[[noreturn]] void ThrowInReadingOrder(const Diagnostics& diagnostics) {
  std::vector<Diagnostic> list = diagnostics.list();
  std::map<std::string, std::size_t> rank;
  for (const Diagnostic& d : list) rank.emplace(d.place.file, rank.size());
  std::stable_sort(list.begin(), list.end(), [&](const Diagnostic& a, const Diagnostic& b) {
    return std::make_tuple(rank[a.place.file], a.place.line, a.place.column) <
           std::make_tuple(rank[b.place.file], b.place.line, b.place.column);
  });
  throw ConfigError(std::move(list));
}

std::string StemOf(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return name.substr(0, name.find_last_of('.'));
}

// `tree`: of the file, with the duplicate keys that were found in it.
template <class S>
S LoadTree(ConfigNode tree, FieldReading reading, ConfigKind kind, const StructTable<S>& table) {
  const ConfigNode node = PrepareMapping(std::move(tree), kind, "", reading.diagnostics);
  S spec;
  ReadStruct(node, table, "", spec, reading);
  reading.diagnostics.ThrowIfAny();
  return spec;
}

template <class S>
S LoadText(std::string_view text, const std::string& file_name, ConfigKind kind,
           const StructTable<S>& table) {
  FieldReading reading;
  ConfigNode tree = ReadConfig(text, file_name, reading.diagnostics);
  return LoadTree(std::move(tree), std::move(reading), kind, table);
}

CollectiveCorrections ReadCorrections(const SourceFile& file, const ConfigSource& source) {
  FieldReading reading;
  ConfigNode tree = source.ReadTree(file.text, file.name, reading.diagnostics);
  return LoadTree(std::move(tree), std::move(reading), ConfigKind::kCollectives,
                  CorrectionFields());
}

void RequireMapping(const ConfigNode& root) {
  if (root.IsMapping()) return;
  throw ConfigError(root.place,
                    fmt::format("found {}, allowed: a mapping with model, hardware, plan, ...",
                                DescribeFound(root)));
}

// A framework's file is full of keys for other cases: what it says without effect here is no
// mistake, but noted; its defaults are not even that.
void NoteLayersWithoutEffect(const JobSpec& job, const JobLayers& layers, FieldReading& reading,
                             std::vector<std::string>& notes) {
  const std::vector<std::string_view> rules = KeysWithoutEffect(job);
  // False where it has an effect, or where a stronger layer says it.
  const auto take_out = [&](const Setting& setting) {
    const auto given = reading.given.find(setting.path);
    const bool is_idle = std::find(rules.begin(), rules.end(), setting.path) != rules.end();
    if (!is_idle || given == reading.given.end()) return false;
    if (given->second.file != setting.place.file) return false;
    reading.given.erase(given);
    return true;
  };
  for (const Setting& setting : layers.under) take_out(setting);
  std::vector<std::string> without;
  for (const Setting& setting : layers.over) {
    if (!take_out(setting)) continue;
    without.push_back(fmt::format("{} ({})", setting.path, OriginText(setting.place)));
  }
  if (without.empty()) return;
  notes.push_back(fmt::format("without effect in this job: {}", fmt::join(without, ", ")));
}

// What a calibration says without effect in this job is no mistake.
void ForgetGiven(std::string_view above, const std::string& file, FieldReading& reading) {
  for (auto it = reading.given.begin(); it != reading.given.end();) {
    const bool is_it = it->second.file == file && IsAtOrBelow(it->first, above);
    it = is_it ? reading.given.erase(it) : std::next(it);
  }
}

// What was fitted over one profile need not fit over another.
void WarnOfOtherBase(const JobSpec& job, std::vector<std::string>& warnings) {
  const CalibrationSpec& calibration = job.calibration;
  if (calibration.fitted_over.empty() || calibration.fitted_over == job.hardware.name) return;
  warnings.push_back(fmt::format("calibration '{}' was fitted over hardware {}, the job's is {}",
                                 calibration.name, calibration.fitted_over, job.hardware.name));
}

// Reads the tree of a job's file, under which and over which `layers` lie.
ResolvedJob Resolve(ConfigNode root, const std::string& file_name, const JobLayers& layers,
                    const std::vector<std::string>& sets, const ConfigSource& source,
                    FieldReading reading) {
  std::vector<Setting> settings = layers.over;
  for (Setting& set : ParseSettings(sets, reading.diagnostics)) settings.push_back(std::move(set));
  ExpandedJob expanded = ExpandJob(std::move(root), settings, source, reading.diagnostics);

  ResolvedJob resolved;
  JobSpec& job = resolved.job;
  job.file = file_name;
  const auto inline_corrections = TakeInlineCorrections(expanded.job, reading);
  ReadStruct(expanded.job, JobFields(), "", job, reading);
  if (!reading.IsGiven("name")) {
    job.name = StemOf(file_name);
    reading.origins.front() = {"name", job.name, "the file's name"};
  }
  const bool is_complete = !expanded.model.IsNull() && !expanded.hardware.IsNull();
  if (!expanded.model.IsNull()) job.model = ReadModel(expanded.model, "model", reading);
  if (!expanded.hardware.IsNull()) {
    ReadStruct(expanded.hardware, HardwareFields(), "hardware", job.hardware, reading);
  }
  if (!expanded.calibration.IsNull()) {
    ReadStruct(expanded.calibration, CalibrationFields(), "calibration", job.calibration, reading);
    ForgetGiven("host", expanded.calibration.place.file, reading);
  }
  try {
    job.collectives.correction_table = inline_corrections
                                           ? *inline_corrections
                                           : LoadCorrections(job.collectives.corrections, source);
    if (is_complete) KeepRowsFor(job.hardware, job.collectives.correction_table);
  } catch (const ConfigError& error) {
    for (Diagnostic diagnostic : error.diagnostics()) {
      if (diagnostic.place.file.empty()) {
        diagnostic.place = reading.PlaceOf("collectives.corrections");
      }
      reading.diagnostics.Add(diagnostic.place, diagnostic.message);
    }
  }
  ReadScheduleFile(job, source, reading);
  // Without the model or the hardware most checks would only repeat that.
  if (is_complete) {
    DeriveDefaults(job, reading);
    NoteLayersWithoutEffect(job, layers, reading, resolved.notes);
    CheckJob(job, reading);
  }
  if (!reading.diagnostics.empty()) ThrowInReadingOrder(reading.diagnostics);
  WarnOfOtherBase(job, resolved.warnings);
  for (const auto& [path, place] : reading.given) job.given.push_back(path);
  resolved.origins = std::move(reading.origins);
  resolved.resolved_json = WriteResolved(job);
  resolved.notes.insert(resolved.notes.begin(), layers.notes.begin(), layers.notes.end());
  resolved.warnings.insert(resolved.warnings.begin(), layers.warnings.begin(),
                           layers.warnings.end());
  return resolved;
}

// Keys as the table spells them, so that a layer meets the key that it means.
void UseCanonicalKeys(ConfigNode& node, const FieldTable& table) {
  for (ConfigEntry& entry : node.entries) {
    const FieldRow* row = table.Find(entry.key);
    if (row == nullptr) continue;
    if (node.Find(row->key) == nullptr) entry.key = row->key;
    if (row->nested != nullptr && entry.value.IsMapping()) {
      UseCanonicalKeys(entry.value, *row->nested);
    }
  }
}

}  // namespace

ResolvedJob LoadJobText(std::string_view text, const std::string& file_name,
                        const std::vector<std::string>& sets, const ConfigSource& source) {
  FieldReading reading;
  ConfigNode root = source.ReadTree(text, file_name, reading.diagnostics);
  RequireMapping(root);
  return Resolve(std::move(root), file_name, {}, sets, source, std::move(reading));
}

ResolvedJob LoadJobTree(const ConfigNode& root, const std::string& file_name,
                        const std::vector<std::string>& sets, const ConfigSource& source) {
  RequireMapping(root);
  return Resolve(root, file_name, {}, sets, source, {});
}

ResolvedJob LoadLayeredJob(std::string_view text, const std::string& file_name,
                           const JobLayers& layers, const std::vector<std::string>& sets,
                           const ConfigSource& source) {
  FieldReading reading;
  for (const Diagnostic& problem : layers.problems) {
    reading.diagnostics.Add(problem.place, problem.message);
  }
  ConfigNode root = MakeMapping({file_name, 0, 0});
  for (const Setting& setting : layers.under) {
    SetPath(root, setting.path, setting.value, setting.place);
  }
  if (!text.empty()) {
    ConfigNode file = source.ReadTree(text, file_name, reading.diagnostics);
    RequireMapping(file);
    UseCanonicalKeys(file, JobFields().fields());
    root = Merge(std::move(root), file);
  }
  ResolvedJob resolved =
      Resolve(std::move(root), file_name, layers, sets, source, std::move(reading));
  resolved.has_file = !text.empty();
  return resolved;
}

SourceFile FindJob(const std::string& path, const ConfigSource& source) {
  SourceFile file = source.ReadFile(path);
  if (file.error.empty()) return file;
  if (auto named = source.FindNamed(ConfigKind::kJobs, path)) return std::move(*named);
  const std::string nearest = Nearest(path, source.Names(ConfigKind::kJobs));
  if (!nearest.empty()) {
    file.error = fmt::format("found no such file or job; did you mean '{}'?", nearest);
  }
  return file;
}

ResolvedJob LoadJob(const std::string& path, const std::vector<std::string>& sets,
                    const ConfigSource& source) {
  const SourceFile file = FindJob(path, source);
  if (!file.error.empty()) throw ConfigError(Place{file.name, 0, 0}, file.error);
  return LoadJobText(file.text, file.name, sets, source);
}

HardwareSpec LoadHardwareText(std::string_view text, const std::string& file_name) {
  return LoadText(text, file_name, ConfigKind::kHardware, HardwareFields());
}

std::vector<HardwareSpec> LoadAllHardware(const ConfigSource& source) {
  std::vector<HardwareSpec> all;
  for (const std::string& name : source.Names(ConfigKind::kHardware)) {
    const auto file = source.FindNamed(ConfigKind::kHardware, name);
    if (!file.has_value() || !file->error.empty()) continue;
    all.push_back(LoadHardwareText(file->text, file->name));
    all.back().name = name;
  }
  return all;
}

NetworkSpec LoadNetworkText(std::string_view text, const std::string& file_name) {
  return LoadText(text, file_name, ConfigKind::kNetworks, NetworkFields());
}

CollectiveCorrections LoadCorrectionsText(std::string_view text, const std::string& file_name) {
  return LoadText(text, file_name, ConfigKind::kCollectives, CorrectionFields());
}

CalibrationSpec LoadCalibrationText(std::string_view text, const std::string& file_name) {
  return LoadText(text, file_name, ConfigKind::kCalibrations, CalibrationFields());
}

CollectiveCorrections LoadCorrections(const std::string& name, const ConfigSource& source) {
  if (name == "none") return {};
  if (auto named = source.FindNamed(ConfigKind::kCollectives, name)) {
    if (!named->error.empty()) throw ConfigError(Place{named->name, 0, 0}, named->error);
    return ReadCorrections(*named, source);
  }
  if (name == CollectiveModelSpec{}.corrections) return {};
  const SourceFile file = source.ReadFile(name);
  if (file.error.empty()) return ReadCorrections(file, source);
  const std::vector<std::string> names = source.Names(ConfigKind::kCollectives);
  const std::string nearest = Nearest(name, names);
  throw ConfigError(
      Place{}, fmt::format("collectives.corrections: found '{}', allowed: none, a file{}{}{}", name,
                           names.empty() ? "" : ", ", fmt::join(names, ", "),
                           nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

ModelSpec LoadModelText(std::string_view text, const std::string& file_name) {
  FieldReading reading;
  const ConfigNode node = PrepareMapping(ReadConfig(text, file_name, reading.diagnostics),
                                         ConfigKind::kModels, "", reading.diagnostics);
  ModelSpec model;
  if (!node.IsNull()) model = ReadModel(node, "", reading);
  if (auto* spec = std::get_if<TransformerSpec>(&model.network)) {
    DeriveTransformerDefaults(*spec, "transformer", reading);
  }
  reading.diagnostics.ThrowIfAny();
  return model;
}

}  // namespace stepsim
