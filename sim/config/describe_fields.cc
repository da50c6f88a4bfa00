#include "sim/config/describe_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "sim/base/units.h"

namespace stepsim {
namespace {

void AddTo(const FieldTable& table, const std::string& prefix, std::vector<FieldPath>& list) {
  for (const FieldRow& row : table.rows) {
    const std::string path = JoinPath(prefix, row.key);
    list.push_back({path, &row, &table});
    if (row.kind == FieldKind::kStruct) AddTo(*row.nested, path, list);
    if (row.kind == FieldKind::kStructList) AddTo(*row.nested, path + ".N", list);
  }
}

void Put(ConfigNode& object, std::string_view key, ConfigNode value) {
  object.Set(key, {}, std::move(value));
}
void PutText(ConfigNode& object, std::string_view key, std::string_view text) {
  Put(object, key, MakeText(std::string(text)));
}
void PutNumber(ConfigNode& object, std::string_view key, double number) {
  Put(object, key, MakePlain(fmt::format("{:.17g}", number)));
}

ConfigNode TextList(const std::vector<std::string>& texts) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::kSequence;
  for (const std::string& text : texts) list.items.push_back(MakeText(text));
  return list;
}

void PutBounds(ConfigNode& schema, const FieldRow& row) {
  if (std::isfinite(row.min)) {
    PutNumber(schema, row.excludes_min ? "exclusiveMinimum" : "minimum", row.min);
  }
  if (std::isfinite(row.max)) PutNumber(schema, "maximum", row.max);
}

// "25 MiB", "2.5us": a number as ParseQuantity reads it, then one of the unit's spellings.
std::string QuantityPattern(Unit unit) {
  constexpr std::string_view kDigits = "[0-9]+(_[0-9]+)*";
  return fmt::format("^ *[+]?({0}([.]({0})?)?|[.]{0})([eE][+-]?{0})? *({1}) *$", kDigits,
                     fmt::join(UnitNames(unit), "|"));
}

void PutNumberType(ConfigNode& schema, const FieldRow& row) {
  if (row.unit == Unit::kNone) {
    PutText(schema, "type", "number");
    PutBounds(schema, row);
    return;
  }
  PutText(schema, "type", "string");
  PutText(schema, "pattern", QuantityPattern(row.unit));
  Put(schema, "examples", TextList({std::string(UnitExample(row.unit))}));
}

void PutType(ConfigNode& schema, const FieldRow& row, SchemaMode mode) {
  switch (row.kind) {
    case FieldKind::kBool:
      PutText(schema, "type", "boolean");
      return;
    case FieldKind::kInteger:
      PutText(schema, "type", "integer");
      PutBounds(schema, row);
      return;
    case FieldKind::kNumber:
      PutNumberType(schema, row);
      return;
    case FieldKind::kNumberList: {
      PutText(schema, "type", "array");
      ConfigNode item = MakeMapping();
      PutNumberType(item, row);
      Put(schema, "items", std::move(item));
      return;
    }
    case FieldKind::kText:
      PutText(schema, "type", "string");
      return;
    case FieldKind::kTextList: {
      PutText(schema, "type", "array");
      ConfigNode item = MakeMapping();
      PutText(item, "type", "string");
      Put(schema, "items", std::move(item));
      return;
    }
    case FieldKind::kChoice:
      Put(schema, "enum", TextList(row.choices));
      return;
    case FieldKind::kStruct: {
      for (ConfigEntry& entry : FieldsSchema(*row.nested, mode).entries) {
        Put(schema, entry.key, std::move(entry.value));
      }
      return;
    }
    case FieldKind::kStructList:
      PutText(schema, "type", "array");
      Put(schema, "items", FieldsSchema(*row.nested, SchemaMode::kWhole));
      return;
    case FieldKind::kReference:
      return;
  }
}

// The default in the schema's own type; nothing where there is none.
void PutDefault(ConfigNode& schema, const FieldRow& row, const FieldTable& table) {
  if (row.is_required || !row.get || !row.unset.empty()) return;
  if (IsUnset(row.get(table.defaults))) return;
  const std::string text = DefaultText(row, table);
  if (text.empty()) return;
  const bool is_word =
      row.kind == FieldKind::kText || row.kind == FieldKind::kChoice || row.unit != Unit::kNone;
  Put(schema, "default", is_word ? MakeText(text) : MakePlain(text));
}

// An editor shows it beside the key: what it is, in which unit, and what holds without it.
std::string Description(const FieldRow& row, const FieldTable& table) {
  std::string text = row.doc;
  if (!row.unit_note.empty()) text += fmt::format(" ({})", row.unit_note);
  const std::string standard = DefaultText(row, table);
  const bool is_known =
      !row.unset.empty() || (row.get && !IsUnset(row.get(table.defaults)) && !standard.empty());
  if (is_known) text += fmt::format("; default: {}", standard);
  return text;
}

ConfigNode RowSchema(const FieldRow& row, const FieldTable& table, SchemaMode mode) {
  ConfigNode schema = MakeMapping();
  PutText(schema, "description", Description(row, table));
  PutType(schema, row, mode);
  PutDefault(schema, row, table);
  return schema;
}

}  // namespace

std::vector<FieldPath> ListFields(const FieldTable& table, const std::string& prefix) {
  std::vector<FieldPath> list;
  AddTo(table, prefix, list);
  return list;
}

std::string DescribeField(const FieldPath& field) {
  const FieldRow& row = *field.row;
  std::string text = fmt::format("{}\n  {}\n", field.path, row.doc);
  const auto line = [&text](std::string_view label, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<9}{}\n", label, value);
  };
  if (row.kind != FieldKind::kReference) line("allowed", AllowedText(row));
  line("default", row.is_required ? "none, the key is required" : DefaultText(row, *field.table));
  line("also", fmt::format("{}", fmt::join(row.aliases, ", ")));
  return text;
}

ConfigNode FieldsSchema(const FieldTable& table, SchemaMode mode) {
  ConfigNode properties = MakeMapping();
  std::vector<std::string> required;
  for (const FieldRow& row : table.rows) {
    ConfigNode schema = RowSchema(row, table, mode);
    for (const std::string& alias : row.aliases) {
      ConfigNode other = schema;
      PutText(other, "description", fmt::format("another spelling of {}", row.key));
      Put(properties, alias, std::move(other));
    }
    Put(properties, row.key, std::move(schema));
    if (row.is_required && mode == SchemaMode::kWhole) required.push_back(row.key);
  }
  ConfigNode schema = MakeMapping();
  PutText(schema, "type", "object");
  Put(schema, "properties", std::move(properties));
  if (!required.empty()) Put(schema, "required", TextList(required));
  Put(schema, "additionalProperties", MakePlain("false"));
  return schema;
}

ConfigNode RequiredKeysSchema(const FieldTable& table) {
  ConfigNode properties = MakeMapping();
  std::vector<std::string> required;
  for (const FieldRow& row : table.rows) {
    if (row.is_required) required.push_back(row.key);
    if (row.kind == FieldKind::kStruct) {
      Put(properties, row.key, RequiredKeysSchema(*row.nested));
    } else if (row.is_required) {
      Put(properties, row.key, MakeMapping());
    }
  }
  ConfigNode schema = MakeMapping();
  PutText(schema, "type", "object");
  if (!properties.entries.empty()) Put(schema, "properties", std::move(properties));
  if (!required.empty()) Put(schema, "required", TextList(required));
  return schema;
}

}  // namespace stepsim
