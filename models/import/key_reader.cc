#include "models/import/key_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/base/nearest.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::string_view kAuto = "auto";

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsPattern(std::string_view key) { return !key.empty() && key.back() == '*'; }

// "checkpoint." of "checkpoint.*", "log-" of "log-*".
std::string_view StemOf(std::string_view key) { return key.substr(0, key.size() - 1); }

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::string Allowed(const std::vector<WordPair>& words) {
  std::vector<std::string_view> names;
  for (const WordPair& word : words) names.push_back(word.theirs);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::string_view> OursOf(std::span<const WordPair> words, const ConfigNode& value) {
  const std::string text = LowerText(value);
  for (const WordPair& word : words) {
    if (value.IsScalar() && Lower(word.theirs) == text) return word.ours;
  }
  return std::nullopt;
}

// The same value, wherever it was read: frameworks put numbers and flags into quotes at will.
ConfigNode Unquoted(ConfigNode value) {
  const bool is_flag = value.text == "true" || value.text == "false";
  if (value.IsScalar() && (is_flag || ParseNumber(value.text))) value.is_quoted = false;
  return value;
}

}  // namespace

KeyRow Takes(std::string_view key, std::string_view field, std::vector<WordPair> words) {
  return {key, KeyRow::Use::kTakes, field, std::move(words), {}};
}
KeyRow TakesSwitch(std::string_view key, std::string_view field, std::string_view value) {
  return {key, KeyRow::Use::kTakes, field, {{"true", value}}, {}, true};
}
KeyRow Reads(std::string_view key) { return {key, KeyRow::Use::kReads, "", {}, {}}; }
KeyRow ReadsSwitch(std::string_view key) { return {key, KeyRow::Use::kReads, "", {}, {}, true}; }
KeyRow NoEffect(std::string_view key, std::string_view why) {
  return {key, KeyRow::Use::kNoEffect, why, {}, {}};
}
KeyRow Refuses(std::string_view key, std::vector<std::string_view> neutral, std::string_view what) {
  return {key, KeyRow::Use::kRefuses, what, {}, std::move(neutral)};
}

std::vector<KeyRow> Joined(std::initializer_list<std::vector<KeyRow>> tables) {
  std::vector<KeyRow> all;
  for (const std::vector<KeyRow>& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

void RequireKeys(const ConfigNode& root, std::string_view framework) {
  if (root.IsMapping()) return;
  throw ConfigError(root.place, fmt::format("found {}, allowed: a mapping with the keys of {}",
                                            DescribeFound(root), framework));
}

std::string LowerText(const ConfigNode& node) { return node.IsScalar() ? Lower(node.text) : ""; }

KeyReader::KeyReader(const ConfigNode& root, std::span<const KeyRow> rows, ImportedJob& job,
                     Diagnostics& problems)
    : root_(root), rows_(rows), job_(job), problems_(problems) {}

void KeyReader::ReadRows() { ReadMapping(root_, ""); }

const KeyRow* KeyReader::RowOf(std::string_view path) const {
  const KeyRow* found = nullptr;
  for (const KeyRow& row : rows_) {
    if (row.key == path) return &row;
    if (IsPattern(row.key) && StartsWith(path, StemOf(row.key))) found = &row;
  }
  return found;
}

bool KeyReader::IsTable(std::string_view path) const {
  const std::string stem = fmt::format("{}.", path);
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const KeyRow& row) { return StartsWith(row.key, stem); });
}

void KeyReader::ReadMapping(const ConfigNode& node, const std::string& path) {
  for (const ConfigEntry& entry : node.entries) {
    const std::string key = JoinPath(path, entry.key);
    if (const KeyRow* row = RowOf(key)) {
      ReadEntry(*row, key, entry);
    } else if (IsTable(key) && entry.value.IsMapping()) {
      ReadMapping(entry.value, key);
    } else if (!IsTable(key) || !entry.value.IsNull()) {
      AddUnknown(key, entry);
    }
  }
}

void KeyReader::ReadEntry(const KeyRow& row, const std::string& path, const ConfigEntry& entry) {
  switch (row.use) {
    case KeyRow::Use::kTakes:
      return Take(row, path, entry);
    case KeyRow::Use::kReads:
      return;
    case KeyRow::Use::kRefuses:
      return Refuse(row, path, entry);
    case KeyRow::Use::kNoEffect:
      break;
  }
  job_.unused.push_back({path, std::string(row.text), "", entry.key_place});
}

void KeyReader::Take(const KeyRow& row, const std::string& path, const ConfigEntry& entry) {
  if (entry.value.IsNull()) return;
  if (LowerText(entry.value) == kAuto && !OursOf(row.words, entry.value)) {
    return Need(row.text, row.words.empty() ? "N" : row.words.front().ours, path);
  }
  if (row.words.empty()) {
    job_.over.push_back({std::string(row.text), Unquoted(entry.value), entry.key_place});
    return;
  }
  if (const auto ours = OursOf(row.words, entry.value)) {
    job_.over.push_back(
        {std::string(row.text), MakePlain(std::string(*ours), entry.value.place), entry.key_place});
    return;
  }
  problems_.Add(entry.value.place, fmt::format("{}: found {}, allowed: {}", path,
                                               DescribeFound(entry.value), Allowed(row.words)));
}

void KeyReader::Refuse(const KeyRow& row, const std::string& path, const ConfigEntry& entry) const {
  const ConfigNode& value = entry.value;
  const std::string text = LowerText(value);
  const bool is_empty = value.IsNull() || (value.IsSequence() && value.items.empty()) ||
                        (value.IsMapping() && value.entries.empty());
  const bool is_neutral =
      is_empty || (value.IsScalar() && std::any_of(row.neutral.begin(), row.neutral.end(),
                                                   [&](std::string_view n) { return n == text; }));
  if (is_neutral) {
    job_.unused.push_back({path, fmt::format("no {}", row.text), "", entry.key_place});
    return;
  }
  const bool has_word = !row.neutral.empty() && !row.neutral.front().empty();
  problems_.Add(
      value.place.file.empty() ? entry.key_place : value.place,
      fmt::format("{}: found {}, which stepsim does not simulate ({}); to run without it, "
                  "take the key out{}",
                  path, DescribeFound(value), row.text,
                  has_word ? fmt::format(" or write {}", fmt::join(row.neutral, " or ")) : ""));
}

void KeyReader::AddUnknown(const std::string& path, const ConfigEntry& entry) {
  std::vector<std::string> known;
  for (const KeyRow& row : rows_) {
    std::string_view name = IsPattern(row.key) ? StemOf(row.key) : row.key;
    if (!name.empty() && name.back() == '.') name.remove_suffix(1);
    known.emplace_back(name);
  }
  job_.unknown.push_back({path, "", Nearest(path, known), entry.key_place});
}

const ConfigNode* KeyReader::Find(std::string_view key) const {
  const ConfigNode* node = &root_;
  while (true) {
    const std::size_t dot = key.find('.');
    const ConfigNode* value = node->FindValue(key.substr(0, dot));
    if (value == nullptr || value->IsNull()) return nullptr;
    if (dot == std::string_view::npos) return value;
    node = value;
    key.remove_prefix(dot + 1);
  }
}

std::string_view KeyReader::FirstOf(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (Find(key) != nullptr) return key;
  }
  return "";
}

std::int64_t KeyReader::Count(std::string_view key, std::int64_t fallback) const {
  const ConfigNode* value = Find(key);
  if (value == nullptr) return fallback;
  const auto number = value->IsScalar() ? ParseInteger(value->text) : std::nullopt;
  if (number) return *number;
  Report(key, fmt::format("found {}, allowed: a whole number", DescribeFound(*value)));
  return fallback;
}

bool KeyReader::Flag(std::string_view key, bool fallback) const {
  const ConfigNode* value = Find(key);
  if (value == nullptr) return fallback;
  const std::string text = LowerText(*value);
  if (text == "true" || text == "yes" || text == "1") return true;
  if (text == "false" || text == "no" || text == "0") return false;
  Report(key, fmt::format("found {}, allowed: true, false", DescribeFound(*value)));
  return fallback;
}

std::string KeyReader::Word(std::string_view key, std::string_view fallback,
                            std::span<const WordPair> words) const {
  const ConfigNode* value = Find(key);
  if (value == nullptr) return std::string(fallback);
  if (words.empty() && value->IsScalar()) return value->text;
  if (const auto ours = OursOf(words, *value)) return std::string(*ours);
  Report(key, fmt::format("found {}, allowed: {}", DescribeFound(*value),
                          words.empty() ? "a word" : Allowed({words.begin(), words.end()})));
  return std::string(fallback);
}

Place KeyReader::PlaceOf(std::string_view key) const {
  const ConfigNode* value = key.empty() ? nullptr : Find(key);
  return value == nullptr ? Place{job_.file, 0, 0} : value->place;
}

void KeyReader::Set(std::string_view field, ConfigNode value, std::string_view key) {
  const Place place = PlaceOf(key);
  if (value.place.file.empty()) value.place = place;
  job_.over.push_back({std::string(field), std::move(value), place});
}
void KeyReader::Set(std::string_view field, std::string_view word, std::string_view key) {
  Set(field, MakePlain(std::string(word), PlaceOf(key)), key);
}
void KeyReader::Set(std::string_view field, std::int64_t number, std::string_view key) {
  Set(field, fmt::format("{}", number), key);
}

void KeyReader::Set(std::string_view field, std::span<const std::int64_t> numbers,
                    std::string_view key) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::kSequence;
  list.place = PlaceOf(key);
  for (const std::int64_t number : numbers) {
    list.items.push_back(MakePlain(fmt::format("{}", number), list.place));
  }
  Set(field, std::move(list), key);
}

bool KeyReader::IsAuto(std::string_view key) const {
  const ConfigNode* value = Find(key);
  return value != nullptr && LowerText(*value) == kAuto;
}

void KeyReader::Need(std::string_view field, std::string_view example, std::string_view key) {
  const bool is_auto = IsAuto(key);
  job_.needs.push_back(
      {std::string(field), std::string(example),
       is_auto ? fmt::format("{} is 'auto' at line {}", key, PlaceOf(key).line) : ""});
}

void KeyReader::AddUnused(std::string_view key, std::string_view why) {
  job_.unused.push_back({std::string(key), std::string(why), "", PlaceOf(key)});
}

void KeyReader::Assume(std::string_view field, std::string_view word) {
  const Place place{fmt::format("{}'s default", job_.framework), 0, 0};
  job_.under.push_back({std::string(field), MakePlain(std::string(word), place), place});
}

void KeyReader::Report(std::string_view key, std::string_view message) const {
  problems_.Add(PlaceOf(key), fmt::format("{}: {}", key, message));
}

}  // namespace stepsim
