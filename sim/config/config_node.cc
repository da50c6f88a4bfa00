#include "sim/config/config_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

// The item a path's part like "0" names; throws when the list has no such item.
ConfigNode& ItemAt(ConfigNode& list, std::string_view part, std::string_view path,
                   const Place& place) {
  const std::optional<std::int64_t> index = ParseInteger(part);
  if (!index || *index < 0 || static_cast<std::size_t>(*index) >= list.items.size()) {
    const std::string allowed = list.items.empty()
                                    ? "the list is empty"
                                    : fmt::format("allowed: 0 to {}", list.items.size() - 1);
    throw ConfigError(
        place, fmt::format("{}: found '{}' as the place in a list, {}", path, part, allowed));
  }
  return list.items[static_cast<std::size_t>(*index)];
}

ConfigNode& ChildAt(ConfigNode& node, std::string_view part, std::string_view path,
                    const Place& place) {
  if (node.IsSequence()) return ItemAt(node, part, path, place);
  if (node.IsScalar()) {
    throw ConfigError(
        place, fmt::format("{}: '{}' has no key below it, its value is {}", path,
                           path.substr(0, path.size() - part.size() - 1), DescribeFound(node)));
  }
  if (ConfigEntry* entry = node.Find(part)) return entry->value;
  return node.Set(part, place, ConfigNode{}).value;
}

nlohmann::ordered_json ToJson(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return nullptr;
    case ConfigNode::Kind::kScalar:
      break;
    case ConfigNode::Kind::kSequence: {
      auto list = nlohmann::ordered_json::array();
      for (const ConfigNode& item : node.items) list.push_back(ToJson(item));
      return list;
    }
    case ConfigNode::Kind::kMapping: {
      // Keys are unique by construction: push them as they are, without a search for each.
      nlohmann::ordered_json::object_t object;
      for (const ConfigEntry& entry : node.entries) {
        object.push_back({entry.key, ToJson(entry.value)});
      }
      return object;
    }
  }
  if (node.is_quoted) return node.text;
  if (node.text == "true") return true;
  if (node.text == "false") return false;
  if (const auto integer = ParseInteger(node.text)) return *integer;
  if (const auto number = ParseNumber(node.text)) return *number;
  return node.text;
}

}  // namespace

const ConfigEntry* ConfigNode::Find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const ConfigEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

ConfigEntry* ConfigNode::Find(std::string_view key) {
  return const_cast<ConfigEntry*>(std::as_const(*this).Find(key));
}

const ConfigNode* ConfigNode::FindValue(std::string_view key) const {
  const ConfigEntry* entry = Find(key);
  return entry == nullptr ? nullptr : &entry->value;
}

ConfigEntry& ConfigNode::Set(std::string_view key, Place key_place, ConfigNode value) {
  SIM_CHECK(IsMapping() || IsNull(), "a key can only be set in a mapping");
  kind = Kind::kMapping;
  if (ConfigEntry* entry = Find(key)) {
    entry->key_place = std::move(key_place);
    entry->value = std::move(value);
    return *entry;
  }
  return entries.emplace_back(
      ConfigEntry{std::string(key), std::move(key_place), std::move(value)});
}

void ConfigNode::Remove(std::string_view key) {
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [&](const ConfigEntry& entry) { return entry.key == key; }),
                entries.end());
}

ConfigNode MakeText(std::string text, Place place) {
  ConfigNode node = MakePlain(std::move(text), std::move(place));
  node.is_quoted = true;
  return node;
}

ConfigNode MakePlain(std::string text, Place place) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kScalar;
  node.text = std::move(text);
  node.place = std::move(place);
  return node;
}

ConfigNode MakeMapping(Place place) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kMapping;
  node.place = std::move(place);
  return node;
}

std::string DescribeFound(const ConfigNode& node) {
  constexpr std::size_t kLongest = 60;
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return "nothing";
    case ConfigNode::Kind::kSequence:
      return node.items.empty() ? "an empty list" : "a list";
    case ConfigNode::Kind::kMapping:
      return "a mapping";
    case ConfigNode::Kind::kScalar:
      break;
  }
  if (node.text.size() <= kLongest) return fmt::format("'{}'", node.text);
  // Cut in front of a character, not inside one (UTF-8 continuation bytes are 10xxxxxx).
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(node.text[cut]) & 0xC0) == 0x80) --cut;
  return fmt::format("'{}...'", node.text.substr(0, cut));
}

std::string JoinPath(std::string_view base, std::string_view key) {
  if (base.empty()) return std::string(key);
  return fmt::format("{}.{}", base, key);
}

bool IsAtOrBelow(std::string_view path, std::string_view above) {
  return path.substr(0, above.size()) == above &&
         (path.size() == above.size() || path[above.size()] == '.');
}

void SetPath(ConfigNode& root, std::string_view path, ConfigNode value, const Place& place) {
  ConfigNode* node = &root;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty()) {
      throw ConfigError(place, fmt::format("found the path '{}', allowed: keys joined by dots, for "
                                           "example 'plan.ddp.bucket_cap_mb'",
                                           path));
    }
    const bool is_last = end == path.size();
    if (is_last && (node->IsMapping() || node->IsNull())) {
      node->Set(part, place, std::move(value));
      return;
    }
    node = &ChildAt(*node, part, path.substr(0, end), place);
    if (is_last) {
      *node = std::move(value);
      return;
    }
    begin = end + 1;
  }
}

ConfigNode Merge(ConfigNode base, const ConfigNode& overlay) {
  if (!base.IsMapping() || !overlay.IsMapping()) return overlay;
  for (const ConfigEntry& entry : overlay.entries) {
    ConfigEntry* old = base.Find(entry.key);
    if (old == nullptr) {
      base.entries.push_back(entry);
    } else {
      old->key_place = entry.key_place;
      old->value = Merge(std::move(old->value), entry.value);
    }
  }
  return base;
}

std::string WriteJson(const ConfigNode& node) {
  return ToJson(node).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace stepsim
