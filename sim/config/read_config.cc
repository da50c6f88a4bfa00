#include "sim/config/read_config.h"

// The only file that includes yaml-cpp. Only its scanner and parser are used; the tree, places,
// aliases and merge keys are ours, so that every limit and every message is ours too.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stepsim {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// ---- Before the parser sees the text ----

// The number of bytes of the UTF-8 character at the front, 0 when it is not one.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  const bool is_wrong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                        (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return is_wrong ? 0 : length;
}

bool IsControl(unsigned char c) {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
}

// Refuses what is no text, and what would make the parser's token queue explode: it keeps a whole
// flow collection as tokens before it reports the first one.
void CheckText(std::string_view text, const std::string& file, const ConfigLimits& limits) {
  Place place{file, 1, 1};
  std::size_t open = 0;
  std::size_t flow_marks = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = Utf8Length(text.substr(i, 4));
    if (length == 0 || IsControl(static_cast<unsigned char>(c))) {
      throw ConfigError(place, fmt::format("found the byte 0x{:02X}, allowed: a text file in UTF-8 "
                                           "(is this a binary file?)",
                                           static_cast<unsigned char>(c)));
    }
    if (c == '[' || c == '{') ++open;
    if ((c == ']' || c == '}') && open > 0) --open;
    if (c == '[' || c == '{' || c == ',') ++flow_marks;
    if (open > limits.max_depth) {
      throw ConfigError(place, fmt::format("found more than {0} lists and mappings inside each "
                                           "other, allowed: at most {0}",
                                           limits.max_depth));
    }
    if (flow_marks > limits.max_nodes) {
      throw ConfigError(place,
                        fmt::format("found more than {0} values, allowed: at most {0} in one file",
                                    limits.max_nodes));
    }
    ++place.column;
    if (c == '\n') {
      ++place.line;
      place.column = 1;
    }
    i += length;
  }
}

// ---- From events to the tree ----

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string file, const ConfigLimits& limits)
      : file_(std::move(file)), limits_(limits) {}

  ConfigNode TakeRoot() { return std::move(root_); }
  Diagnostics& diagnostics() { return diagnostics_; }
  const Diagnostics& duplicates() const { return duplicates_; }
  // Of the innermost list or mapping that is not complete.
  Place OpenPlace(const Place& otherwise) const {
    return stack_.empty() ? otherwise : stack_.back().node.place;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      Fail(At(mark), "found more text after the end of the document, allowed: one document");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    ConfigNode node;
    node.place = At(mark);
    AddLeaf(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckTag(mark, tag);
    ConfigNode node = MakePlain(value, At(mark));
    // yaml-cpp's own marks: "?" for a plain scalar, "!" for one in quotes or a block.
    node.is_quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    AddLeaf(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Fail(At(mark), "found an alias inside the value it stands for");
    Charge(found->second.cost, At(mark));
    AddComplete(found->second.node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(ConfigNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(ConfigNode::Kind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override {
    ApplyMergeKeys(stack_.back());
    Close();
  }

 private:
  struct MergeSource {
    Place place;
    ConfigNode value;
  };
  // A list or mapping under construction.
  struct Level {
    ConfigNode node;
    YAML::anchor_t anchor = 0;
    std::size_t spent_before = 0;
    bool expects_value = false;  // in a mapping: the key has been read
    bool is_merge_key = false;
    std::string key;
    Place key_place;
    std::unordered_map<std::string, int> key_lines;
    std::vector<MergeSource> merges;
  };
  struct Anchored {
    ConfigNode node;
    std::size_t cost = 0;
  };

  [[noreturn]] void Fail(Place place, std::string message) {
    diagnostics_.Add(std::move(place), std::move(message));
    throw ConfigError(diagnostics_.list());
  }

  Place At(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    static constexpr std::string_view kCore = "tag:yaml.org,2002:";
    if (tag.empty() || tag == "?" || tag == "!" || tag.rfind(kCore, 0) == 0) return;
    diagnostics_.Add(At(mark), fmt::format("found the tag '{}', allowed: no tags", tag));
  }

  // Long texts count more, so that aliases cannot multiply them without limit.
  void Charge(std::size_t cost, const Place& place) {
    spent_ += cost;
    if (spent_ > limits_.max_nodes) {
      Fail(place, fmt::format("found more than {0} values (aliases counted where they are used), "
                              "allowed: at most {0} in one file",
                              limits_.max_nodes));
    }
  }
  static std::size_t CostOf(const ConfigNode& leaf) { return 1 + leaf.text.size() / 256; }

  void AddLeaf(ConfigNode node, YAML::anchor_t anchor) {
    // A key is charged with its value: the two make one entry.
    if (stack_.empty() || !IsAwaitingKey()) Charge(CostOf(node), node.place);
    if (anchor != 0) anchors_[anchor] = {node, CostOf(node)};
    AddComplete(std::move(node));
  }

  bool IsAwaitingKey() const {
    return stack_.back().node.IsMapping() && !stack_.back().expects_value;
  }

  void Open(ConfigNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    CheckTag(mark, tag);
    if (stack_.size() >= limits_.max_depth) {
      Fail(At(mark), fmt::format("found more than {0} lists and mappings inside each other, "
                                 "allowed: at most {0}",
                                 limits_.max_depth));
    }
    Level level;
    level.node.kind = kind;
    level.node.place = At(mark);
    level.anchor = anchor;
    level.spent_before = spent_;
    Charge(1, level.node.place);
    stack_.push_back(std::move(level));
  }

  void Close() {
    Level level = std::move(stack_.back());
    stack_.pop_back();
    if (level.anchor != 0) {
      const std::size_t cost = spent_ - level.spent_before;
      Charge(cost, level.node.place);  // the kept copy takes memory as well
      anchors_[level.anchor] = {level.node, cost};
    }
    AddComplete(std::move(level.node));
  }

  void AddComplete(ConfigNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = stack_.back();
    if (level.node.IsSequence()) {
      level.node.items.push_back(std::move(node));
    } else if (!level.expects_value) {
      TakeKey(level, node);
    } else {
      TakeValue(level, std::move(node));
    }
  }

  void TakeKey(Level& level, const ConfigNode& node) {
    level.expects_value = true;
    level.key_place = node.place;
    level.key = node.text;
    level.is_merge_key = node.IsScalar() && !node.is_quoted && node.text == "<<";
    if (!node.IsScalar()) {
      diagnostics_.Add(node.place,
                       fmt::format("found {} as a key, allowed: a word", DescribeFound(node)));
    }
  }

  void TakeValue(Level& level, ConfigNode node) {
    level.expects_value = false;
    if (level.is_merge_key) {
      level.merges.push_back({level.key_place, std::move(node)});
      return;
    }
    const auto [first, is_new] = level.key_lines.emplace(level.key, level.key_place.line);
    if (!is_new) {
      duplicates_.Add(level.key_place,
                      fmt::format("{}: duplicate key, first at line {}",
                                  DescribeFound(MakePlain(level.key)), first->second));
      return;
    }
    level.node.entries.push_back({level.key, level.key_place, std::move(node)});
  }

  // `<<: *base` or `<<: [*a, *b]`: keys written in the mapping itself win, then earlier bases.
  void ApplyMergeKeys(Level& level) {
    for (MergeSource& merge : level.merges) {
      std::vector<ConfigNode> bases;
      if (merge.value.IsSequence()) {
        bases = std::move(merge.value.items);
      } else {
        bases.push_back(std::move(merge.value));
      }
      for (ConfigNode& base : bases) {
        if (!base.IsMapping()) {
          diagnostics_.Add(merge.place, fmt::format("<<: found {}, allowed: an alias of a mapping",
                                                    DescribeFound(base)));
        }
        for (ConfigEntry& entry : base.entries) {
          if (!level.key_lines.emplace(entry.key, entry.key_place.line).second) continue;
          level.node.entries.push_back(std::move(entry));
        }
      }
    }
  }

  std::string file_;
  ConfigLimits limits_;
  Diagnostics diagnostics_;
  Diagnostics duplicates_;
  ConfigNode root_;
  std::vector<Level> stack_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::size_t spent_ = 0;
  std::size_t documents_ = 0;
};

// The parser's terse messages in words that say what to do.
std::string SyntaxMessage(const std::string& message) {
  struct Row {
    std::string_view theirs;
    std::string_view ours;
  };
  static constexpr std::array kRows = {
      Row{"end of sequence flow not found", "found no end of a list, allowed: '[a, b]'"},
      Row{"end of map flow not found", "found no end of a mapping, allowed: '{key: value}'"},
      Row{"end of map not found",
          "found a line that fits no key above it, allowed: 'key: value', "
          "indented like its neighbours"},
      Row{"end of sequence not found",
          "found a line that fits no list item above it, allowed: "
          "'- item', indented like its neighbours"},
      Row{"illegal map value",
          "found a ':' where no key can stand, allowed: 'key: value' on a line "
          "of its own, or quotes around a text that contains ': '"},
      Row{"illegal tab when looking for indentation", "found a tab, allowed: spaces to indent"},
      Row{"illegal EOF in scalar", "found no end of a text in quotes"},
      Row{"the referenced anchor is not defined",
          "found an alias without its anchor, allowed: "
          "'&name' on a value above it"},
  };
  for (const Row& row : kRows) {
    if (message.rfind(row.theirs, 0) == 0) return std::string(row.ours);
  }
  return fmt::format("found text that is neither YAML nor JSON: {}", message);
}

void ParseInto(TreeBuilder& builder, std::string_view text, const std::string& file) {
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    Place place{file, 0, 0};
    if (!error.mark.is_null()) place = {file, error.mark.line + 1, error.mark.column + 1};
    // An end that is missing is noticed far behind; where it was opened is what helps.
    if (error.msg.find("flow not found") != std::string::npos) place = builder.OpenPlace(place);
    builder.diagnostics().Add(std::move(place), SyntaxMessage(error.msg));
  }
}

void SetPlaces(ConfigNode& node, const Place& place) {
  node.place = place;
  for (ConfigNode& item : node.items) SetPlaces(item, place);
  for (ConfigEntry& entry : node.entries) {
    entry.key_place = place;
    SetPlaces(entry.value, place);
  }
}

// Null for a text without content.
ConfigNode ReadTree(std::string_view text, const std::string& file, const ConfigLimits& limits,
                    Diagnostics& duplicates) {
  if (text.size() > limits.max_bytes) {
    throw ConfigError({file, 0, 0}, fmt::format("found {} bytes, allowed: at most {} MiB",
                                                text.size(), limits.max_bytes >> 20));
  }
  if (text.rfind(kByteOrderMark, 0) == 0) text.remove_prefix(kByteOrderMark.size());
  CheckText(text, file, limits);
  TreeBuilder builder(file, limits);
  ParseInto(builder, text, file);
  if (builder.diagnostics().empty()) {
    for (const Diagnostic& d : builder.duplicates().list()) duplicates.Add(d.place, d.message);
    return builder.TakeRoot();
  }
  // What is thrown is not noted as well: a caller that collects would report it twice.
  std::vector<Diagnostic> all = builder.duplicates().list();
  const std::vector<Diagnostic>& others = builder.diagnostics().list();
  all.insert(all.end(), others.begin(), others.end());
  throw ConfigError(std::move(all));
}

}  // namespace

ConfigNode ReadConfig(std::string_view text, const std::string& file_name,
                      const ConfigLimits& limits) {
  Diagnostics duplicates;
  ConfigNode root = ReadConfig(text, file_name, duplicates, limits);
  duplicates.ThrowIfAny();
  return root;
}

ConfigNode ReadConfig(std::string_view text, const std::string& file_name, Diagnostics& duplicates,
                      const ConfigLimits& limits) {
  ConfigNode root = ReadTree(text, file_name, limits, duplicates);
  if (root.IsNull()) {
    throw ConfigError({file_name, 0, 0},
                      "found an empty file, allowed: YAML or JSON with 'key: value'");
  }
  return root;
}

ConfigNode ReadSetValue(std::string_view text, const Place& place) {
  try {
    Diagnostics duplicates;
    ConfigNode node = ReadTree(text, place.file, {}, duplicates);
    duplicates.ThrowIfAny();
    SetPlaces(node, place);
    return node;
  } catch (const ConfigError& error) {
    // The place inside the value says nothing that the value itself does not.
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& diagnostic : diagnostics) diagnostic.place = place;
    throw ConfigError(std::move(diagnostics));
  }
}

}  // namespace stepsim
