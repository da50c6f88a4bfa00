#include "sim/config/read_toml.h"

// The only file that includes toml++. It is compiled in here, so that sanitizers see it and nothing
// has to be linked.
#include <fmt/format.h>

// Where the parser is sure of something and is wrong, it must not go on: in a release its own
// assertions would be promises to the compiler.
namespace stepsim {
namespace {
struct ParserIsWrong {};
constexpr void RequireInParser(bool holds) {
  if (!holds) throw ParserIsWrong{};
}
}  // namespace
}  // namespace stepsim
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#define TOML_UNDEF_MACROS 1
#define TOML_MAX_NESTED_VALUES 256
#define TOML_ASSERT(expr) stepsim::RequireInParser(static_cast<bool>(expr))
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace stepsim {
namespace {

// ---- Before the parser sees the text ----

// The parser bounds how deep arrays and inline tables nest, but not how many parts a dotted key has
// ("a.a.a..."), nor how many values there are: both become trees that are walked recursively, and
// memory. This counts them without understanding more than texts, comments and brackets.
class SizeChecker {
 public:
  SizeChecker(std::string_view text, const std::string& file, const ConfigLimits& limits)
      : text_(text), place_{file, 1, 1}, limits_(limits) {}

  void Check() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        SkipComment();
      } else if (c == '"' || c == '\'') {
        SkipText(c);
      } else {
        CheckCharacter(c);
        Count(c);
        Step();
      }
    }
  }

 private:
  // TOML has none; the parser trips over some.
  void CheckCharacter(char c) const {
    const bool is_blank = c == '\t' || c == '\n' || c == '\r';
    if ((static_cast<unsigned char>(c) >= 0x20 || is_blank) && c != 0x7F) return;
    throw ConfigError(place_, fmt::format("found the byte 0x{:02X}, allowed: a text file in UTF-8 "
                                          "(is this a binary file?)",
                                          static_cast<unsigned char>(c)));
  }

  void Count(char c) {
    if (c == '.') ++dots_;
    if (c == '=' || c == ',' || c == '[') ++values_;
    if (c == ',' || (c == '\n' && open_.empty())) dots_ = 0;
    if (c == '[' || c == '{') {
      open_.push_back(dots_);
      below_ += dots_ + 1;
      // `[[name]]` and `[a.b]`: what is inside names the tables that follow.
      dots_ = 0;
    }
    if ((c == ']' || c == '}') && !open_.empty()) {
      below_ -= open_.back() + 1;
      dots_ = open_.back();
      open_.pop_back();
    }
    if (below_ + dots_ > limits_.max_depth) {
      throw ConfigError(place_, fmt::format("found more than {0} lists and tables inside each "
                                            "other, allowed: at most {0}",
                                            limits_.max_depth));
    }
    if (values_ > limits_.max_nodes) {
      throw ConfigError(place_, fmt::format("found more than {0} values, allowed: at most {0} in "
                                            "one file",
                                            limits_.max_nodes));
    }
  }

  void Step() {
    ++place_.column;
    if (text_[at_] == '\n') {
      ++place_.line;
      place_.column = 1;
    }
    ++at_;
  }
  void Step(std::size_t count) {
    for (; count > 0 && at_ < text_.size(); --count) Step();
  }

  void SkipComment() {
    while (at_ < text_.size() && text_[at_] != '\n') Step();
  }

  // A text in quotes, to its end; one of a single line ends with the line in any case.
  void SkipText(char quote) {
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    Step(is_long ? 3 : 1);
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && quote == '"') {
        Step(2);
      } else if (is_long && text_.substr(at_, 3) == three) {
        Step(3);
        return;
      } else if (!is_long && (text_[at_] == quote || text_[at_] == '\n')) {
        Step();
        return;
      } else {
        Step();
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Place place_;
  const ConfigLimits& limits_;
  std::vector<std::size_t> open_;  // for each open bracket, the dots of the key in front of it
  std::size_t below_ = 0;          // depth that the open brackets and their keys make
  std::size_t dots_ = 0;           // of the key that is being read
  std::size_t values_ = 0;
};

// ---- From the parser's tree to ours ----

class TreeMaker {
 public:
  explicit TreeMaker(std::string file) : file_(std::move(file)) {}

  ConfigNode Make(const toml::node& node) const {
    const Place place = At(node.source());
    if (const toml::table* table = node.as_table()) return MakeTable(*table, place);
    if (const toml::array* array = node.as_array()) {
      ConfigNode list;
      list.kind = ConfigNode::Kind::kSequence;
      list.place = place;
      for (const toml::node& item : *array) list.items.push_back(Make(item));
      return list;
    }
    if (const auto* text = node.as_string()) return MakeText(text->get(), place);
    if (const auto* flag = node.as_boolean())
      return MakePlain(flag->get() ? "true" : "false", place);
    if (const auto* count = node.as_integer())
      return MakePlain(fmt::format("{}", count->get()), place);
    if (const auto* number = node.as_floating_point()) {
      return MakePlain(NumberText(number->get()), place);
    }
    return MakeText(DateText(node), place);
  }

  Place At(const toml::source_region& region) const {
    return {file_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
  }

 private:
  // The parser sorts keys by name; messages and lists follow the document.
  ConfigNode MakeTable(const toml::table& table, const Place& place) const {
    ConfigNode mapping = MakeMapping(place);
    for (const auto& [key, value] : table) {
      mapping.entries.push_back({std::string(key.str()), At(key.source()), Make(value)});
    }
    std::stable_sort(mapping.entries.begin(), mapping.entries.end(),
                     [](const ConfigEntry& a, const ConfigEntry& b) {
                       return std::make_pair(a.key_place.line, a.key_place.column) <
                              std::make_pair(b.key_place.line, b.key_place.column);
                     });
    return mapping;
  }

  // 1.0 stays a number with a point: "1" would pass as a count.
  static std::string NumberText(double number) {
    std::string text = fmt::format("{}", number);
    const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
    return is_whole ? text + ".0" : text;
  }

  static std::string DateText(const toml::node& node) {
    std::ostringstream text;
    if (const auto* date = node.as_date()) text << date->get();
    if (const auto* time = node.as_time()) text << time->get();
    if (const auto* both = node.as_date_time()) text << both->get();
    return text.str();
  }

  std::string file_;
};

}  // namespace

ConfigNode ReadToml(std::string_view text, const std::string& file_name,
                    const ConfigLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw ConfigError({file_name, 0, 0}, fmt::format("found {} bytes, allowed: at most {} MiB",
                                                     text.size(), limits.max_bytes >> 20));
  }
  SizeChecker(text, file_name, limits).Check();
  const TreeMaker maker(file_name);
  ConfigNode root;
  try {
    root = maker.Make(toml::parse(text, file_name));
  } catch (const toml::parse_error& error) {
    throw ConfigError(maker.At(error.source()),
                      fmt::format("found text that is not TOML: {}", error.description()));
  } catch (const ParserIsWrong&) {
    throw ConfigError({file_name, 0, 0}, "found text that is not TOML");
  }
  if (root.entries.empty()) {
    throw ConfigError({file_name, 0, 0}, "found an empty file, allowed: TOML with 'key = value'");
  }
  root.place = {file_name, 1, 1};
  return root;
}

}  // namespace stepsim
