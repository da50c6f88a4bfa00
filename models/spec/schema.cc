#include "models/spec/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/spec/spec_fields.h"
#include "sim/base/diagnostics.h"
#include "sim/base/nearest.h"
#include "sim/config/config_node.h"
#include "sim/config/describe_fields.h"

namespace stepsim {
namespace {

std::vector<FieldPath> AllFields() {
  std::vector<FieldPath> all;
  const auto add = [&all](const FieldTable& table, const std::string& prefix) {
    for (FieldPath& field : ListFields(table, prefix)) {
      // Keys that other code reads are listed where their content is.
      const bool is_known = std::any_of(
          all.begin(), all.end(), [&](const FieldPath& other) { return other.path == field.path; });
      if (is_known) continue;
      all.push_back(std::move(field));
    }
  };
  add(JobFields().fields(), "");
  add(LayerListFields().fields(), "model");
  add(ModelFields().fields(), "model");
  add(TransformerFields().fields(), "model.transformer");
  add(HardwareFields().fields(), "hardware");
  add(CalibrationFields().fields(), "calibration");
  return all;
}

// "model.layers.0.name" -> "model.layers.N.name", as fields are listed.
std::string WithoutIndices(std::string_view path) {
  std::string result;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const bool is_index = !part.empty() && std::all_of(part.begin(), part.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
    result = JoinPath(result, is_index ? "N" : part);
    begin = end + 1;
  }
  return result;
}

// Whether `name` is the field's path, the end of it, or ends in another spelling of its key.
bool Means(const std::string& name, const FieldPath& field) {
  const auto is_end = [&name](const std::string& path) {
    if (name.size() > path.size()) return false;
    const std::size_t begin = path.size() - name.size();
    return path.compare(begin, name.size(), name) == 0 && (begin == 0 || path[begin - 1] == '.');
  };
  if (is_end(field.path)) return true;
  const std::string parent = field.path.substr(0, field.path.size() - field.row->key.size());
  return std::any_of(field.row->aliases.begin(), field.row->aliases.end(),
                     [&](const std::string& alias) { return is_end(parent + alias); });
}

ConfigNode List(std::vector<ConfigNode> items) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::kSequence;
  list.items = std::move(items);
  return list;
}

ConfigNode TypeIs(std::string_view type, std::string_view description) {
  ConfigNode schema = MakeMapping();
  schema.Set("description", {}, MakeText(std::string(description)));
  schema.Set("type", {}, MakeText(std::string(type)));
  return schema;
}

ConfigNode& Properties(ConfigNode& schema) { return schema.Find("properties")->value; }

void AddSources(ConfigNode& schema) {
  ConfigNode sources = TypeIs("object", "a source for every value, by its path");
  sources.Set("additionalProperties", {}, TypeIs("string", "where the value comes from"));
  Properties(schema).Set("sources", {}, std::move(sources));
}

// A mapping of a file or of a job, which may start from another and say where its values come from.
ConfigNode PartialMapping(const FieldTable& table) {
  ConfigNode schema = FieldsSchema(table, SchemaMode::kPartial);
  Properties(schema).Set("base", {}, TypeIs("string", "a name or file whose keys are taken over"));
  AddSources(schema);
  return schema;
}

ConfigNode KeyIsThere(std::string_view key) {
  ConfigNode properties = MakeMapping();
  properties.Set(key, {}, MakeMapping());
  ConfigNode schema = MakeMapping();
  schema.Set("properties", {}, std::move(properties));
  schema.Set("required", {}, List({MakeText(std::string(key))}));
  return schema;
}

// Without a base the mapping must hold everything itself.
ConfigNode WholeUnlessBased(ConfigNode schema, ConfigNode required) {
  schema.Set("if", {}, KeyIsThere("base"));
  schema.Set("else", {}, std::move(required));
  return schema;
}

ConfigNode FileMapping(const FieldTable& table) {
  return WholeUnlessBased(PartialMapping(table), RequiredKeysSchema(table));
}

// A transformer or a list of layers.
ConfigNode ModelMapping() {
  ConfigNode schema = PartialMapping(ModelFields().fields());
  ConfigNode transformer = FieldsSchema(TransformerFields().fields(), SchemaMode::kPartial);
  transformer.Set("description", {}, MakeText("a mapping that describes a transformer"));
  Properties(schema).Set("transformer", {}, std::move(transformer));
  ConfigNode list = FieldsSchema(LayerListFields().fields(), SchemaMode::kPartial);
  for (ConfigEntry& entry : Properties(list).entries) {
    Properties(schema).Set(entry.key, {}, std::move(entry.value));
  }
  ConfigNode required = RequiredKeysSchema(ModelFields().fields());
  Properties(required).Set("transformer", {}, RequiredKeysSchema(TransformerFields().fields()));
  required.Set("oneOf", {}, List({KeyIsThere("transformer"), KeyIsThere("layers")}));
  return WholeUnlessBased(std::move(schema), std::move(required));
}

ConfigNode CalibrationMapping() {
  ConfigNode schema = PartialMapping(CalibrationFields().fields());
  for (const auto& [key, table] : {std::pair{"hardware", &HardwareFields().fields()},
                                   std::pair{"host", &HostFields().fields()}}) {
    ConfigNode& reference = Properties(schema).Find(key)->value;
    ConfigNode mapping = FieldsSchema(*table, SchemaMode::kPartial);
    mapping.Set("description", {}, *reference.FindValue("description"));
    reference = std::move(mapping);
  }
  return WholeUnlessBased(std::move(schema), RequiredKeysSchema(CalibrationFields().fields()));
}

// A Hugging Face config.json: dozens of keys, told by one.
ConfigNode HfMapping() {
  ConfigNode schema = TypeIs("object", "a Hugging Face config.json");
  for (ConfigEntry& entry : KeyIsThere("model_type").entries) {
    schema.Set(entry.key, {}, std::move(entry.value));
  }
  return schema;
}

// `folder` holds what can be named.
void SetReference(ConfigNode& job, std::string_view key, std::string_view folder,
                  std::vector<ConfigNode> mappings) {
  ConfigNode& reference = Properties(job).Find(key)->value;
  const std::string doc = reference.FindValue("description")->text;
  mappings.insert(mappings.begin(),
                  TypeIs("string", fmt::format("{}; names: `stepsim list {}`", doc, folder)));
  reference.Set("anyOf", {}, List(std::move(mappings)));
}

std::string Write(ConfigNode schema, std::string_view title) {
  ConfigNode root = MakeMapping();
  root.Set("$schema", {}, MakeText("http://json-schema.org/draft-07/schema#"));
  root.Set("title", {}, MakeText(std::string(title)));
  for (ConfigEntry& entry : schema.entries) root.Set(entry.key, {}, std::move(entry.value));
  return WriteJson(root) + "\n";
}

}  // namespace

std::string JobSchema() {
  ConfigNode schema = FieldsSchema(JobFields().fields(), SchemaMode::kWhole);
  SetReference(schema, "model", "models", {ModelMapping(), HfMapping()});
  SetReference(schema, "hardware", "hardware", {FileMapping(HardwareFields().fields())});
  SetReference(schema, "network", "networks", {PartialMapping(NetworkFields().fields())});
  SetReference(schema, "calibration", "calibrations", {CalibrationMapping()});
  return Write(std::move(schema), "stepsim job");
}

std::string HardwareSchema() {
  return Write(FileMapping(HardwareFields().fields()), "stepsim hardware profile");
}

std::string NetworkSchema() {
  return Write(FileMapping(NetworkFields().fields()), "stepsim network");
}

std::string ModelSchema() { return Write(ModelMapping(), "stepsim network description"); }

std::string CorrectionsSchema() {
  ConfigNode schema = FieldsSchema(CorrectionFields().fields(), SchemaMode::kWhole);
  AddSources(schema);
  return Write(std::move(schema), "stepsim corrections of NCCL's table");
}

std::string CalibrationSchema() { return Write(CalibrationMapping(), "stepsim calibration"); }

std::vector<std::string> AllFieldPaths() {
  std::vector<std::string> paths;
  for (const FieldPath& field : AllFields()) paths.push_back(field.path);
  return paths;
}

std::string DescribeField(std::string_view name) {
  const std::string path = WithoutIndices(name);
  const std::vector<FieldPath> fields = AllFields();
  std::string text;
  for (const FieldPath& field : fields) {
    if (!Means(path, field)) continue;
    text += text.empty() ? "" : "\n";
    text += DescribeField(field);
  }
  if (!text.empty()) return text;
  std::vector<std::string> names;
  for (const FieldPath& field : fields) {
    names.push_back(field.path);
    names.push_back(field.row->key);
    names.insert(names.end(), field.row->aliases.begin(), field.row->aliases.end());
  }
  const std::string nearest = Nearest(name, names);
  throw ConfigError(
      Place{}, fmt::format("found no field {}{}", DescribeFound(MakeText(std::string(name))),
                           nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

}  // namespace stepsim
