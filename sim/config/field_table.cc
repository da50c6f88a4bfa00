#include "sim/config/field_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {
namespace {

std::string NumberText(double value, Unit unit) { return WriteQuantity(value, unit); }

// "from 1 to 10000", "more than 0 B", "" without bounds.
std::string BoundsText(const FieldRow& row) {
  const bool has_min = std::isfinite(row.min);
  const bool has_max = std::isfinite(row.max);
  const std::string min = NumberText(row.min, row.unit);
  const std::string max = NumberText(row.max, row.unit);
  if (has_min && has_max) {
    return row.excludes_min ? fmt::format("more than {} and at most {}", min, max)
                            : fmt::format("from {} to {}", min, max);
  }
  if (has_min) return fmt::format("{} {}", row.excludes_min ? "more than" : "at least", min);
  if (has_max) return fmt::format("at most {}", max);
  return "";
}

std::string WithBounds(std::string_view noun, const FieldRow& row, std::string_view each = "") {
  std::string text(noun);
  if (!row.unit_note.empty()) text += fmt::format(" of {}", row.unit_note);
  const std::string bounds = BoundsText(row);
  if (!bounds.empty()) text += fmt::format("{} {}", each, bounds);
  return text;
}

std::string Keys(const FieldTable& table) {
  std::vector<std::string_view> keys;
  for (const FieldRow& row : table.rows) keys.push_back(row.key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

// The required keys and how many others there are; all of them where none is required.
std::string Essentials(const FieldTable& table) {
  std::vector<std::string_view> required;
  for (const FieldRow& row : table.rows) {
    if (row.is_required) required.push_back(row.key);
  }
  const std::size_t others = table.rows.size() - required.size();
  if (required.empty() || others == 0) return Keys(table);
  return fmt::format("{} and {} optional {}", fmt::join(required, ", "), others,
                     others == 1 ? "key" : "keys");
}

ConfigNode WriteValue(const FieldRow& row, const FieldValue& value) {
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    ConfigNode node;
    node.kind = ConfigNode::Kind::kSequence;
    for (const double number : *list) node.items.push_back(MakePlain(NumberText(number, row.unit)));
    return node;
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    ConfigNode node;
    node.kind = ConfigNode::Kind::kSequence;
    for (const std::string& text : *texts) node.items.push_back(MakeText(text));
    return node;
  }
  const bool is_word = std::holds_alternative<std::string>(value) || row.unit != Unit::kNone;
  const std::string text = ValueText(row, value);
  return is_word ? MakeText(text) : MakePlain(text);
}

ConfigNode WriteStructList(const FieldRow& row, const void* object) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::kSequence;
  const std::size_t size = row.size(object);
  list.items.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    list.items.push_back(WriteFields(*row.nested, row.const_child(object, i)));
  }
  return list;
}

}  // namespace

const FieldRow* FieldTable::Find(std::string_view key) const {
  for (const FieldRow& row : rows) {
    if (row.key == key) return &row;
    if (std::find(row.aliases.begin(), row.aliases.end(), key) != row.aliases.end()) return &row;
  }
  return nullptr;
}

bool IsUnset(const FieldValue& value) {
  const auto* list = std::get_if<std::vector<double>>(&value);
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  return std::holds_alternative<std::monostate>(value) || (list != nullptr && list->empty()) ||
         (texts != nullptr && texts->empty());
}

std::string ValueText(const FieldRow& row, const FieldValue& value) {
  struct Visitor {
    const FieldRow& row;
    std::string Unset() const { return row.unset.empty() ? "unset" : row.unset; }
    std::string operator()(std::monostate) const { return Unset(); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return NumberText(number, row.unit); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const std::vector<double>& list) const {
      if (list.empty()) return Unset();
      std::vector<std::string> items;
      for (const double number : list) items.push_back(NumberText(number, row.unit));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    std::string operator()(const std::vector<std::string>& list) const {
      return list.empty() ? Unset() : fmt::format("[{}]", fmt::join(list, ", "));
    }
  };
  return std::visit(Visitor{row}, value);
}

std::string DefaultText(const FieldRow& row, const FieldTable& table) {
  if (row.is_required || !row.get) return "";
  if (!row.unset.empty()) return row.unset;
  return ValueText(row, row.get(table.defaults));
}

std::string AllowedText(const FieldRow& row) {
  switch (row.kind) {
    case FieldKind::kBool:
      return "true, false";
    case FieldKind::kInteger:
      return WithBounds("a whole number", row);
    case FieldKind::kNumber:
      if (row.unit == Unit::kNone) return WithBounds("a number", row);
      return fmt::format("{}, for example '{}'", BoundsText(row), UnitExample(row.unit));
    case FieldKind::kNumberList:
      return WithBounds("a list of numbers", row, ", each");
    case FieldKind::kText:
      return "a text";
    case FieldKind::kTextList:
      return "a list of texts";
    case FieldKind::kChoice:
      return fmt::format("{}", fmt::join(row.choices, ", "));
    case FieldKind::kStruct:
      return fmt::format("a mapping with {}", Essentials(*row.nested));
    case FieldKind::kStructList:
      return fmt::format("a list of mappings with {}", Essentials(*row.nested));
    case FieldKind::kReference:
      break;
  }
  return row.doc;
}

ConfigNode WriteFields(const FieldTable& table, const void* object) {
  ConfigNode node = MakeMapping();
  for (const FieldRow& row : table.rows) {
    ConfigNode value;
    switch (row.kind) {
      case FieldKind::kReference:
        continue;
      case FieldKind::kStruct:
        value = WriteFields(*row.nested, row.const_child(object, 0));
        break;
      case FieldKind::kStructList:
        value = WriteStructList(row, object);
        break;
      default: {
        const FieldValue field = row.get(object);
        if (IsUnset(field)) continue;
        value = WriteValue(row, field);
      }
    }
    node.entries.push_back({row.key, {}, std::move(value)});
  }
  return node;
}

}  // namespace stepsim
