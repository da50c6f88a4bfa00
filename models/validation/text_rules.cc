#include "models/validation/text_rules.h"

#include <algorithm>
#include <cctype>

#include "sim/base/check.h"

namespace stepsim {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The parts of `text` between separators, without blanks around them and without empty ones.
std::vector<std::string_view> Parts(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (const auto part = Trimmed(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::string PlainWords(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool joins = std::string_view("-_/()[],;:\"").find(c) != std::string_view::npos;
    if (!joins) {
      plain += static_cast<char>(std::tolower(byte));
    } else if (!plain.empty() && plain.back() != ' ') {
      plain += ' ';
    }
  }
  return std::string(Trimmed(plain));
}

namespace {

// Does a word of the text begin so? '_' stands for the blank between two words.
bool HasWord(std::string_view plain_text, std::string word) {
  std::replace(word.begin(), word.end(), '_', ' ');
  for (std::size_t at = plain_text.find(word); at != std::string_view::npos;
       at = plain_text.find(word, at + 1)) {
    if (at == 0 || plain_text[at - 1] == ' ') return true;
  }
  return false;
}

}  // namespace

bool MatchesWords(std::string_view plain_text, std::string_view words) {
  if (words.empty()) return plain_text.empty();
  if (words.front() == '=') return plain_text == words.substr(1);
  for (const std::string_view word : Parts(words, ' ')) {
    const bool is_refused = word.front() == '!';
    if (HasWord(plain_text, std::string(word.substr(is_refused ? 1 : 0))) == is_refused) {
      return false;
    }
  }
  return true;
}

const TextRule* FindRule(std::string_view text, std::span<const TextRule> rules) {
  const std::string plain = PlainWords(text);
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const TextRule& rule) {
    return MatchesWords(plain, rule.words);
  });
  return found == rules.end() ? nullptr : &*found;
}

std::vector<std::pair<std::string, std::string>> ParseRuleSettings(std::string_view settings) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string_view part : Parts(settings, ';')) {
    const std::size_t equals = part.find('=');
    SIM_CHECK(equals != std::string_view::npos, "a setting with a value");
    result.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return result;
}

}  // namespace stepsim
