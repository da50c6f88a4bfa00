// What did the user write? A small tree of texts with their places, before any of it has a meaning.
//
//   plan: {strategy: ddp}          mapping {plan: mapping {strategy: scalar "ddp"}}
//   caps: [1, "25"]                sequence (scalar "1", scalar "25" quoted)
//
// The tree is the same for YAML and JSON and knows nothing of the parser. Scalars stay text: what
// "010" or "no" means is decided by the field that reads it (field_table.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"

namespace stepsim {

struct ConfigEntry;

struct ConfigNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };

  Kind kind = Kind::kNull;
  bool is_quoted = false;            // "25" and '25': a text, whatever it looks like
  std::string text;                  // scalars only
  std::vector<ConfigNode> items;     // sequences only
  std::vector<ConfigEntry> entries;  // mappings only, in document order, keys are unique
  Place place;

  bool IsNull() const { return kind == Kind::kNull; }
  bool IsScalar() const { return kind == Kind::kScalar; }
  bool IsSequence() const { return kind == Kind::kSequence; }
  bool IsMapping() const { return kind == Kind::kMapping; }

  // The entry of a mapping; nullptr when there is none (or this is no mapping).
  const ConfigEntry* Find(std::string_view key) const;
  ConfigEntry* Find(std::string_view key);
  const ConfigNode* FindValue(std::string_view key) const;

  // Replaces or appends. REQUIRES: a mapping, or null, which becomes one.
  ConfigEntry& Set(std::string_view key, Place key_place, ConfigNode value);
  void Remove(std::string_view key);
};

struct ConfigEntry {
  std::string key;
  Place key_place;
  ConfigNode value;
};

ConfigNode MakeText(std::string text, Place place = {});   // a quoted scalar
ConfigNode MakePlain(std::string text, Place place = {});  // a number, true or false
ConfigNode MakeMapping(Place place = {});

// What was found, for messages: "'ddp'", "a list", "a mapping", "nothing". Long texts are cut.
std::string DescribeFound(const ConfigNode& node);

// "plan.ddp" + "bucket_cap_mb" -> "plan.ddp.bucket_cap_mb"; an empty base gives the key alone.
std::string JoinPath(std::string_view base, std::string_view key);

// "plan.ddp" and "plan.ddp.no_sync" are at or below "plan.ddp"; "plan.ddp2" is not.
bool IsAtOrBelow(std::string_view path, std::string_view above);

// Sets the value at "plan.ddp.bucket_cap_mb" or "layers.0.name", creating mappings on the way. New
// keys get `place`. Throws ConfigError when the path leads through a scalar or past a list's end.
void SetPath(ConfigNode& root, std::string_view path, ConfigNode value, const Place& place);

// `base` with the keys of `overlay` replaced or added, mappings key by key, anything else whole.
ConfigNode Merge(ConfigNode base, const ConfigNode& overlay);

// JSON text, two blanks per level. Plain scalars that read as numbers, true, false are written so.
std::string WriteJson(const ConfigNode& node);

}  // namespace stepsim
