#include "sim/config/read_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::size_t kLongestText = 4096;

struct ValueOrError {
  FieldValue value;
  std::string error;  // "found X, allowed: Y"
};

ValueOrError Wrong(const ConfigNode& node, const FieldRow& row, std::string_view hint = "") {
  const bool looks_right = node.is_quoted && row.kind != FieldKind::kText &&
                           row.kind != FieldKind::kChoice && row.unit == Unit::kNone;
  std::string error = fmt::format("found {}{}, allowed: {}", DescribeFound(node),
                                  looks_right ? " in quotes" : "", AllowedText(row));
  if (!hint.empty()) error += fmt::format("; did you mean '{}'?", hint);
  return {{}, std::move(error)};
}

bool IsInRange(double value, const FieldRow& row) {
  if (row.excludes_min && value <= row.min) return false;
  return value >= row.min && value <= row.max;
}

ValueOrError ParseBool(const ConfigNode& node, const FieldRow& row) {
  struct Word {
    std::string_view text;
    bool value;
  };
  static constexpr std::array kWords = {Word{"true", true},   Word{"True", true},
                                        Word{"TRUE", true},   Word{"false", false},
                                        Word{"False", false}, Word{"FALSE", false}};
  if (!node.is_quoted) {
    for (const Word& word : kWords) {
      if (word.text == node.text) return {word.value, ""};
    }
  }
  const std::string& text = node.text;
  if (text == "yes" || text == "on" || text == "true" || text == "1") {
    return Wrong(node, row, "true");
  }
  if (text == "no" || text == "off" || text == "false" || text == "0") {
    return Wrong(node, row, "false");
  }
  return Wrong(node, row);
}

ValueOrError ParseWholeNumber(const ConfigNode& node, const FieldRow& row) {
  const auto value = node.is_quoted ? std::nullopt : ParseInteger(node.text);
  if (!value || !IsInRange(static_cast<double>(*value), row)) return Wrong(node, row);
  return {*value, ""};
}

ValueOrError ParseRealNumber(const ConfigNode& node, const FieldRow& row) {
  if (row.unit == Unit::kNone) {
    const auto value = node.is_quoted ? std::nullopt : ParseNumber(node.text);
    if (!value || !IsInRange(*value, row)) return Wrong(node, row);
    return {*value, ""};
  }
  ParsedQuantity parsed = ParseQuantity(node.text, row.unit);
  if (!parsed.ok()) return {{}, std::move(parsed.error)};
  if (!IsInRange(parsed.value, row)) return Wrong(node, row);
  return {parsed.value, ""};
}

ValueOrError ParseNumberList(const ConfigNode& node, const FieldRow& row) {
  if (!node.IsSequence()) return Wrong(node, row);
  std::vector<double> numbers;
  for (const ConfigNode& item : node.items) {
    if (!item.IsScalar()) return Wrong(item, row);
    ValueOrError number = ParseRealNumber(item, row);
    if (!number.error.empty()) return number;
    numbers.push_back(std::get<double>(number.value));
  }
  return {std::move(numbers), ""};
}

ValueOrError ParseText(const ConfigNode& node, const FieldRow& row) {
  if (node.text.size() > kLongestText) {
    return {
        {},
        fmt::format("found {} characters, allowed: at most {}", node.text.size(), kLongestText)};
  }
  if (row.is_required && node.text.empty()) return Wrong(node, row);
  return {node.text, ""};
}

ValueOrError ParseTextList(const ConfigNode& node, const FieldRow& row) {
  if (!node.IsSequence()) return Wrong(node, row);
  std::vector<std::string> texts;
  for (const ConfigNode& item : node.items) {
    if (!item.IsScalar()) return Wrong(item, row);
    ValueOrError text = ParseText(item, row);
    if (!text.error.empty()) return text;
    texts.push_back(std::get<std::string>(text.value));
  }
  return {std::move(texts), ""};
}

ValueOrError ParseValue(const ConfigNode& node, const FieldRow& row) {
  if (row.kind == FieldKind::kTextList) return ParseTextList(node, row);
  if (row.kind == FieldKind::kNumberList) return ParseNumberList(node, row);
  if (!node.IsScalar()) return Wrong(node, row);
  switch (row.kind) {
    case FieldKind::kBool:
      return ParseBool(node, row);
    case FieldKind::kInteger:
      return ParseWholeNumber(node, row);
    case FieldKind::kNumber:
      return ParseRealNumber(node, row);
    default:
      return ParseText(node, row);
  }
}

// An option of the command line: "--set nodes=2", "--nodes 2".
bool IsSetting(const Place& place) { return place.file.rfind("--", 0) == 0; }

// Where further down the key exists: "ddp.bucket_cap_mb" for "bucket_cap_mb"; "" when nowhere.
std::string FindBelow(const FieldTable& table, std::string_view key) {
  for (const FieldRow& row : table.rows) {
    if (row.kind != FieldKind::kStruct) continue;
    if (const FieldRow* found = row.nested->Find(key)) return JoinPath(row.key, found->key);
    const std::string below = FindBelow(*row.nested, key);
    if (!below.empty()) return JoinPath(row.key, below);
  }
  return "";
}

// Empty, or what is wrong with the value; then the member of `object` stays as it is.
std::string SetValue(const ConfigNode& node, const FieldRow& row, void* object) {
  ValueOrError parsed = ParseValue(node, row);
  if (!parsed.error.empty() || row.kind != FieldKind::kChoice) {
    if (parsed.error.empty()) row.set(object, parsed.value);
    return std::move(parsed.error);
  }
  // A word may be another spelling of a choice ("bfloat16"); what counts is what is stored.
  const FieldValue before = row.get(object);
  if (row.set(object, parsed.value) &&
      std::count(row.choices.begin(), row.choices.end(), ValueText(row, row.get(object))) > 0) {
    return "";
  }
  row.set(object, before);
  return Wrong(node, row, Nearest(node.text, row.choices)).error;
}

// Reads one mapping; nested mappings get a reader of their own.
class MappingReader {
 public:
  MappingReader(const FieldTable& table, const std::string& path, void* object,
                FieldReading& reading, bool is_tracked)
      : table_(table), path_(path), object_(object), reading_(reading), is_tracked_(is_tracked) {}

  void Read(const ConfigNode& node, UnknownKeys unknown) {
    std::vector<const ConfigEntry*> entries(table_.rows.size());
    for (const ConfigEntry& entry : node.entries) {
      const FieldRow* row = table_.Find(entry.key);
      if (row == nullptr) {
        if (unknown == UnknownKeys::kReport) ReportUnknown(entry);
        continue;
      }
      const ConfigEntry*& slot = entries[static_cast<std::size_t>(row - table_.rows.data())];
      if (slot == nullptr || IsSetting(slot->key_place) != IsSetting(entry.key_place)) {
        // A setting wins over the file, also where the two spell the key differently.
        if (slot == nullptr || IsSetting(entry.key_place)) slot = &entry;
      } else {
        Report(*row, entry.key_place,
               fmt::format("given twice, as '{}' and as '{}'", slot->key, entry.key));
      }
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      // A setting of null takes the key out, however the file spells it.
      const bool is_taken_out =
          entries[i] != nullptr && entries[i]->value.IsNull() && IsSetting(entries[i]->key_place);
      ReadRow(table_.rows[i], is_taken_out ? nullptr : entries[i], node.place);
    }
  }

 private:
  std::string PathOf(const FieldRow& row) const { return JoinPath(path_, row.key); }

  void Report(const FieldRow& row, const Place& place, std::string_view message) {
    reading_.diagnostics.Add(place, fmt::format("{}: {}", PathOf(row), message));
    reading_.invalid[PathOf(row)] = place;
  }

  void ReportUnknown(const ConfigEntry& entry) {
    std::vector<std::string> names;
    std::vector<std::string> keys;
    for (const FieldRow& row : table_.rows) {
      keys.push_back(row.key);
      names.push_back(row.key);
      names.insert(names.end(), row.aliases.begin(), row.aliases.end());
    }
    std::string nearest = Nearest(entry.key, names);
    if (nearest.empty()) nearest = FindBelow(table_, entry.key);
    const std::string found = DescribeFound(MakePlain(entry.key));
    const std::string where = path_.empty() ? "" : path_ + ": ";
    reading_.diagnostics.Add(
        entry.key_place,
        fmt::format("{}found the unknown key {}, allowed: {}{}", where, found,
                    fmt::join(keys, ", "),
                    nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }

  void ReadRow(const FieldRow& row, const ConfigEntry* entry, const Place& around) {
    if (entry != nullptr && is_tracked_) reading_.given[PathOf(row)] = entry->key_place;
    if (entry == nullptr && row.is_required) {
      Report(row, around, fmt::format("missing, allowed: {}", AllowedText(row)));
      return;
    }
    switch (row.kind) {
      case FieldKind::kReference:
        return;
      case FieldKind::kStruct:
        ReadNested(row, entry, around);
        return;
      case FieldKind::kStructList:
        ReadList(row, entry);
        return;
      default:
        ReadScalar(row, entry);
        return;
    }
  }

  void ReadScalar(const FieldRow& row, const ConfigEntry* entry) {
    // "key:" without a value leaves an optional member unset; elsewhere it is a mistake.
    const bool is_unset = entry != nullptr && entry->value.IsNull() && !row.is_required &&
                          std::holds_alternative<std::monostate>(row.get(table_.defaults));
    if (entry != nullptr && !is_unset) {
      const std::string error = SetValue(entry->value, row, object_);
      if (!error.empty()) Report(row, ValuePlace(*entry), error);
    }
    AddOrigin(row, entry);
  }

  void ReadNested(const FieldRow& row, const ConfigEntry* entry, const Place& around) {
    if (entry != nullptr && !entry->value.IsMapping() && !entry->value.IsNull()) {
      Report(row, ValuePlace(*entry), Wrong(entry->value, row).error);
      return;
    }
    const std::string path = PathOf(row);
    ConfigNode nothing = MakeMapping(entry != nullptr ? entry->key_place : around);
    const bool has_value = entry != nullptr && entry->value.IsMapping();
    MappingReader(*row.nested, path, row.child(object_, 0), reading_, is_tracked_)
        .Read(has_value ? entry->value : nothing, UnknownKeys::kReport);
  }

  // Fields inside a list's items are too many to be tracked one by one.
  void ReadList(const FieldRow& row, const ConfigEntry* entry) {
    if (entry == nullptr) return;
    const ConfigNode& list = entry->value;
    if (!list.IsSequence() || (row.is_required && list.items.empty())) {
      Report(row, ValuePlace(*entry), Wrong(list, row).error);
      return;
    }
    row.resize(object_, list.items.size());
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const ConfigNode& item = list.items[i];
      if (!item.IsMapping()) {
        Report(row, item.place, Wrong(item, row).error);
        continue;
      }
      const std::string path = fmt::format("{}.{}", PathOf(row), i);
      MappingReader(*row.nested, path, row.child(object_, i), reading_, false)
          .Read(item, UnknownKeys::kReport);
    }
    if (is_tracked_) {
      reading_.origins.push_back({PathOf(row), fmt::format("a list of {}", list.items.size()),
                                  OriginText(entry->key_place)});
    }
  }

  void AddOrigin(const FieldRow& row, const ConfigEntry* entry) {
    if (!is_tracked_) return;
    reading_.origins.push_back({PathOf(row), ValueText(row, row.get(object_)),
                                entry == nullptr ? "default" : OriginText(entry->key_place)});
  }

  // A value that is not there has no place of its own.
  static Place ValuePlace(const ConfigEntry& entry) {
    return entry.value.IsNull() || entry.value.place.file.empty() ? entry.key_place
                                                                  : entry.value.place;
  }

  const FieldTable& table_;
  const std::string& path_;
  void* object_;
  FieldReading& reading_;
  bool is_tracked_;
};

}  // namespace

Place FieldReading::PlaceOf(std::string_view path) const {
  while (!path.empty()) {
    const auto found = given.find(path);
    if (found != given.end()) return found->second;
    const std::size_t dot = path.rfind('.');
    path = path.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  const auto top = given.find("");
  return top == given.end() ? Place{} : top->second;
}

void ReadFields(const ConfigNode& node, const FieldTable& table, const std::string& path,
                void* object, FieldReading& reading, UnknownKeys unknown) {
  reading.given.emplace(path, node.place);
  MappingReader(table, path, object, reading, true).Read(node, unknown);
}

bool SetField(const ConfigNode& value, const FieldTable& table, std::string_view path,
              void* object) {
  const std::size_t dot = path.find('.');
  const FieldRow* row = table.Find(path.substr(0, dot));
  if (row == nullptr) return false;
  if (row->kind == FieldKind::kStruct) {
    return dot != std::string_view::npos &&
           SetField(value, *row->nested, path.substr(dot + 1), row->child(object, 0));
  }
  const bool is_plain = row->kind != FieldKind::kReference && row->kind != FieldKind::kStructList;
  return dot == std::string_view::npos && is_plain && SetValue(value, *row, object).empty();
}

std::string OriginText(const Place& place) {
  if (place.file.empty()) return "default";
  if (IsSetting(place)) return place.file.substr(0, place.file.find(' '));
  const std::string name = place.file.substr(place.file.find_last_of('/') + 1);
  return place.line == 0 ? name : fmt::format("{}:{}", name, place.line);
}

}  // namespace stepsim
