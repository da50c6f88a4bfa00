#include "models/import/argument_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepsim {
namespace {

constexpr std::size_t kMostWords = 100'000;
constexpr std::size_t kLongestValue = 4096;

struct Word {
  std::string text;
  Place place;
  bool is_quoted = false;   // all of it: "--bf16" in quotes is still a word of its own
  std::string_view inside;  // of NAME="...": what is between the quotes, as it stands
  Place inside_place;
  bool begins_line = false;  // a line that does not continue the one before
  bool is_break = false;     // ( ) ; & |: what follows belongs to no key in front of it
};

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || (c >= '0' && c <= '9'); }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool IsBreak(char c) {
  return c == '(' || c == ')' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>';
}

// Cuts a text into words as a shell does, so far as arguments need it.
class WordReader {
 public:
  // `has_commands`: brackets and the like end a word; inside a quoted value they are part of it.
  WordReader(std::string_view text, Place place, bool has_commands)
      : text_(text), place_(std::move(place)), has_commands_(has_commands) {}

  // False at the end.
  bool Next(Word& word) {
    word = Word{};
    word.begins_line = SkipToWord();
    word.place = place_;
    if (at_ >= text_.size()) return false;
    if (Breaks()) {
      word.is_break = true;
      Step();
      return true;
    }
    while (at_ < text_.size() && !IsBlank(text_[at_]) && !Breaks()) ReadPiece(word);
    return true;
  }

 private:
  void Step() {
    ++place_.column;
    if (text_[at_] == '\n') {
      ++place_.line;
      place_.column = 1;
    }
    ++at_;
  }

  bool Breaks() const { return has_commands_ && IsBreak(text_[at_]); }

  bool IsContinuation() const {
    return text_[at_] == '\\' && at_ + 1 < text_.size() &&
           (text_[at_ + 1] == '\n' || text_[at_ + 1] == '\r');
  }

  // True when a line ended on the way.
  bool SkipToWord() {
    bool has_ended = false;
    while (at_ < text_.size()) {
      if (IsBlank(text_[at_])) {
        has_ended = has_ended || text_[at_] == '\n';
        Step();
      } else if (IsContinuation()) {
        Step();
        Step();
      } else if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') Step();
      } else {
        break;
      }
    }
    return has_ended;
  }

  void ReadPiece(Word& word) {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return ReadQuoted(word, c);
    if (c == '$') return ReadVariable(word);
    if (IsContinuation()) {
      Step();
      return Step();
    }
    if (c == '\\') {
      Step();
      if (at_ >= text_.size()) return;
    }
    word.text += text_[at_];
    Step();
  }

  void ReadQuoted(Word& word, char quote) {
    const bool is_value = !word.text.empty() && word.text.back() == '=';
    word.is_quoted = word.text.empty();
    Step();
    const std::size_t begin = at_;
    const Place inside = place_;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) Step();
      word.text += text_[at_];
      Step();
    }
    if (is_value) {
      word.inside = text_.substr(begin, at_ - begin);
      word.inside_place = inside;
    }
    if (at_ < text_.size()) Step();
  }

  // $NAME, ${...}, $(...): with its brackets one piece, whatever stands between them.
  void ReadVariable(Word& word) {
    word.text += '$';
    Step();
    if (at_ >= text_.size()) return;
    const char open = text_[at_];
    if (open != '{' && open != '(') return;
    const char close = open == '{' ? '}' : ')';
    int depth = 0;
    do {
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close) --depth;
      word.text += text_[at_];
      Step();
    } while (at_ < text_.size() && depth > 0);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Place place_;
  bool has_commands_;
};

// The name in front of '=' or '+=', "" when the word is no assignment.
std::string NameOf(const Word& word) {
  if (word.is_quoted || word.text.empty() || !IsNameStart(word.text[0])) return "";
  std::size_t end = 1;
  while (end < word.text.size() && IsNamePart(word.text[end])) ++end;
  const bool adds = word.text.compare(end, 2, "+=") == 0;
  return adds || word.text.compare(end, 1, "=") == 0 ? word.text.substr(0, end) : "";
}

// Behind the launcher's last value: torchrun --nproc_per_node 8 train.py
bool IsProgram(std::string_view text) {
  constexpr std::string_view kEnding = ".py";
  return text.size() > kEnding.size() && text.substr(text.size() - kEnding.size()) == kEnding;
}

class ArgumentReader {
 public:
  ArgumentReader(const std::string& file, const ArgumentRules& rules) : rules_(rules) {
    root_ = MakeMapping({file, 1, 1});
  }

  void Read(std::string_view text, const Place& place, bool is_inside = false) {
    WordReader words(text, place, /*has_commands=*/!is_inside);
    Word word;
    while (words.Next(word)) {
      if (++words_ > kMostWords) {
        throw ConfigError(
            word.place, fmt::format("found more than {0} words, allowed: at most {0}", kMostWords));
      }
      Take(word, is_inside);
    }
    EndKey();
  }

  ConfigNode TakeRoot() { return std::move(root_); }

 private:
  void Take(const Word& word, bool is_inside) {
    if (word.is_break) return EndKey();
    if (word.text.rfind("--", 0) == 0 && word.text.size() > 2) return BeginKey(word);
    if (word.begins_line && !values_.empty()) EndKey();
    const std::string name = is_inside ? "" : NameOf(word);
    if (!name.empty()) return Assign(name, word);
    if (key_.empty()) return;  // a command, a file, an array whose words were read already
    std::string value = Expand(word);
    if (!values_.empty() && IsProgram(value)) return EndKey();
    values_.push_back(MakePlain(std::move(value), word.place));
    values_.back().is_quoted = word.is_quoted;
  }

  // "--key" and "--key=value".
  void BeginKey(const Word& word) {
    EndKey();
    const std::size_t equals = word.text.find('=');
    key_ = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    for (char& c : key_) {
      if (c == '_') c = '-';
    }
    key_place_ = word.place;
    if (equals != std::string::npos) {
      Word value = word;
      value.text = word.text.substr(equals + 1);
      values_.push_back(MakePlain(Expand(value), word.place));
      return EndKey();
    }
    if (rules_.is_switch(key_)) EndKey();
  }

  void EndKey() {
    if (key_.empty()) return;
    ConfigNode value;
    if (values_.size() > 1) {
      value.kind = ConfigNode::Kind::kSequence;
      value.place = values_.front().place;
      value.items = std::move(values_);
    } else {
      value = values_.empty() ? MakePlain("true", key_place_) : std::move(values_.front());
    }
    Set(key_, key_place_, std::move(value));
    values_.clear();
    key_.clear();
  }

  // Keys are found by hash: a hostile file has many.
  void Set(const std::string& key, const Place& place, ConfigNode value) {
    const auto [found, is_new] = index_.emplace(key, root_.entries.size());
    if (is_new) {
      root_.entries.push_back({key, place, std::move(value)});
    } else {
      root_.entries[found->second] = {key, place, std::move(value)};
    }
  }

  // NAME="--key value ..." holds arguments, NAME=value a value for later.
  void Assign(const std::string& name, const Word& word) {
    EndKey();
    if (word.inside.find("--") != std::string_view::npos) {
      return Read(word.inside, word.inside_place, /*is_inside=*/true);
    }
    Word value = word;
    value.text = word.text.substr(word.text.find('=') + 1);
    const std::string text = Expand(value);
    variables_[name] = text;
    if (rules_.is_setting(name)) Set(name, word.place, MakePlain(text, word.place));
  }

  // $NAME, ${NAME}, ${NAME:-value} and ${NAME-value}; what the file does not set stays as it is.
  std::string Expand(const Word& word) const {
    std::string out;
    const std::string& text = word.text;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '$') {
        out += text[i++];
        continue;
      }
      const std::size_t begin = i++;
      const bool has_brace = i < text.size() && text[i] == '{';
      if (has_brace) ++i;
      const std::size_t name_begin = i;
      while (i < text.size() && IsNamePart(text[i])) ++i;
      const std::string name = text.substr(name_begin, i - name_begin);
      std::string otherwise;
      bool has_otherwise = false;
      if (has_brace) {
        const std::size_t end = std::min(text.find('}', i), text.size());
        const std::string rest = text.substr(i, end - i);
        has_otherwise = rest.rfind(":-", 0) == 0 || rest.rfind('-', 0) == 0;
        if (has_otherwise) otherwise = rest.substr(rest[0] == ':' ? 2 : 1);
        i = std::min(end + 1, text.size());
      }
      const auto known = variables_.find(name);
      if (known != variables_.end()) {
        out += known->second;
      } else {
        out += has_otherwise ? otherwise : text.substr(begin, i - begin);
      }
      if (out.size() > kLongestValue) break;
    }
    if (out.size() <= kLongestValue) return out;
    throw ConfigError(word.place, fmt::format("found a value of more than {0} characters, allowed: "
                                              "at most {0}",
                                              kLongestValue));
  }

  const ArgumentRules& rules_;
  ConfigNode root_;
  std::unordered_map<std::string, std::size_t> index_;
  std::map<std::string, std::string, std::less<>> variables_;
  std::string key_;  // whose values follow; "" for none
  Place key_place_;
  std::vector<ConfigNode> values_;
  std::size_t words_ = 0;
};

// Refuses what is no text.
void CheckCharacters(std::string_view text, const std::string& file) {
  Place place{file, 1, 1};
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 && !IsBlank(c);
    if (is_control || c == 0x7F) {
      throw ConfigError(place, fmt::format("found the byte 0x{:02X}, allowed: a text file (is this "
                                           "a binary file?)",
                                           static_cast<unsigned char>(c)));
    }
    ++place.column;
    if (c == '\n') {
      ++place.line;
      place.column = 1;
    }
  }
}

}  // namespace

ConfigNode ReadArguments(std::string_view text, const std::string& file_name,
                         const ArgumentRules& rules, const ConfigLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw ConfigError({file_name, 0, 0}, fmt::format("found {} bytes, allowed: at most {} MiB",
                                                     text.size(), limits.max_bytes >> 20));
  }
  CheckCharacters(text, file_name);
  ArgumentReader reader(file_name, rules);
  reader.Read(text, {file_name, 1, 1});
  ConfigNode root = reader.TakeRoot();
  if (root.entries.empty()) {
    throw ConfigError({file_name, 0, 0}, "found no argument, allowed: '--key value' or '--switch'");
  }
  return root;
}

}  // namespace stepsim
