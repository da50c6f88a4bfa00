// What does each key of a framework's file mean here? A table of rows, and a reader that lets no
// key pass: it is taken over, read by the importer's own code, without effect, refused, or unknown.
//
//   const std::vector<KeyRow> kRows = {
//       Takes("training.seq_len", "batch.sequence_length"),
//       Reads("training.global_batch_size"),
//       NoEffect("checkpoint.*", "checkpoints"),
//       Refuses("parallelism.tensor_parallel_degree", {"1"}, "tensor parallelism"),
//   };
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/import/importers.h"
#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"

namespace stepsim {

// A word of the framework and ours.
struct WordPair {
  std::string_view theirs;
  std::string_view ours;
};

struct KeyRow {
  enum class Use { kTakes, kReads, kNoEffect, kRefuses };

  std::string_view key;  // joined by dots; "log-*" is every key that begins so
  Use use = Use::kReads;
  std::string_view text;                  // the field, why it has no effect, or what is refused
  std::vector<WordPair> words;            // kTakes: the values allowed; none: as it is
  std::vector<std::string_view> neutral;  // kRefuses: the values that do not ask for it
  bool is_switch = false;                 // of a command line: no value follows
};

// The value is that of a field of the job. "auto", where it is none of the words, stands for a
// value that a script fills in: it must come from elsewhere.
KeyRow Takes(std::string_view key, std::string_view field, std::vector<WordPair> words = {});
KeyRow TakesSwitch(std::string_view key, std::string_view field, std::string_view value = "true");
// The importer's own code looks at it.
KeyRow Reads(std::string_view key);
KeyRow ReadsSwitch(std::string_view key);
// It does not change how long a step takes.
KeyRow NoEffect(std::string_view key, std::string_view why);
// Any value but these asks for something that is not simulated. Letter case does not count.
KeyRow Refuses(std::string_view key, std::vector<std::string_view> neutral, std::string_view what);

std::vector<KeyRow> Joined(std::initializer_list<std::vector<KeyRow>> tables);

// Reads one file by one table.
class KeyReader {
 public:
  // All live longer than the reader.
  KeyReader(const ConfigNode& root, std::span<const KeyRow> rows, ImportedJob& job,
            Diagnostics& problems);

  // Goes through the file, in its order.
  void ReadRows();

  // The value at a dotted key; nullptr where there is none, or null.
  const ConfigNode* Find(std::string_view key) const;
  // The first of the keys that the file has; "" when none.
  std::string_view FirstOf(std::initializer_list<std::string_view> keys) const;

  // Values with a type; `fallback` where the key is missing or, as reported, wrong.
  std::int64_t Count(std::string_view key, std::int64_t fallback) const;
  bool Flag(std::string_view key, bool fallback) const;
  std::string Word(std::string_view key, std::string_view fallback,
                   std::span<const WordPair> words = {}) const;

  // Lays a value over the job: at the place of `key`, or that of the file as a whole.
  void Set(std::string_view field, ConfigNode value, std::string_view key = "");
  void Set(std::string_view field, std::string_view word, std::string_view key = "");
  void Set(std::string_view field, std::int64_t number, std::string_view key = "");
  void Set(std::string_view field, std::span<const std::int64_t> numbers, std::string_view key);
  // "auto": somebody else must say the field.
  bool IsAuto(std::string_view key) const;
  void Need(std::string_view field, std::string_view example, std::string_view key);
  // Nothing that the step's time depends on.
  void AddUnused(std::string_view key, std::string_view why);
  // The framework's default: laid under the job.
  void Assume(std::string_view field, std::string_view word);

  void Report(std::string_view key, std::string_view message) const;  // "file:3:9: key: message"
  Place PlaceOf(std::string_view key) const;

 private:
  void ReadMapping(const ConfigNode& node, const std::string& path);
  void ReadEntry(const KeyRow& row, const std::string& path, const ConfigEntry& entry);
  void Take(const KeyRow& row, const std::string& path, const ConfigEntry& entry);
  void Refuse(const KeyRow& row, const std::string& path, const ConfigEntry& entry) const;
  const KeyRow* RowOf(std::string_view path) const;
  bool IsTable(std::string_view path) const;  // rows lie below it
  void AddUnknown(const std::string& path, const ConfigEntry& entry);

  const ConfigNode& root_;
  std::span<const KeyRow> rows_;
  ImportedJob& job_;
  Diagnostics& problems_;
};

// Throws ConfigError for what is no mapping.
void RequireKeys(const ConfigNode& root, std::string_view framework);

// A scalar in small letters, whatever its quotes; "" for anything else.
std::string LowerText(const ConfigNode& node);

}  // namespace stepsim
