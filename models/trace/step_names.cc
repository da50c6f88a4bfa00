#include <fmt/format.h>

#include <array>
#include <cctype>
#include <memory>
#include <regex>
#include <string>
#include <string_view>

#include "models/trace/event_fields.h"
#include "models/trace/lane.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

// A number follows. The first row that any annotation of the file fits is the one that counts.
constexpr std::array<std::string_view, 9> kStepNames = {
    "profilerstep#", "train_step", "train step", "training_step", "global_step",
    "iteration",     "iter",       "step",       "batch",
};

char ToLower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "iteration 12", "Iteration_12", "step#12": the words, at most two marks, a number, the end.
std::optional<std::int64_t> NumberBehind(std::string_view text, std::string_view words) {
  if (text.size() <= words.size()) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (ToLower(text[i]) != words[i]) return std::nullopt;
  }
  text.remove_prefix(words.size());
  for (int mark = 0; mark < 2 && !text.empty() && !IsDigit(text.front()); ++mark) {
    if (std::string_view(" #_:=-").find(text.front()) == std::string_view::npos)
      return std::nullopt;
    text.remove_prefix(1);
  }
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  return ParseWhole(text);
}

}  // namespace

struct StepNames::Pattern {
  std::regex regex;
};

StepNames::StepNames(const std::string& pattern) {
  if (pattern.empty()) return;
  try {
    pattern_ = std::make_unique<Pattern>(Pattern{std::regex(pattern)});
  } catch (const std::regex_error& error) {
    throw ConfigError({"--steps " + pattern, 0, 0},
                      fmt::format("is no regular expression: {}", error.what()));
  }
}

StepNames::~StepNames() = default;

std::optional<StepNames::Match> StepNames::Find(const std::string& annotation) const {
  if (pattern_ != nullptr) {
    std::smatch found;
    if (!std::regex_search(annotation, found, pattern_->regex)) return std::nullopt;
    Match match;
    if (found.size() > 1) match.number = ParseWhole(found[1].str());
    return match;
  }
  for (std::size_t row = 0; row < kStepNames.size(); ++row) {
    const std::optional<std::int64_t> number = NumberBehind(annotation, kStepNames[row]);
    if (number) return Match{row, number};
  }
  return std::nullopt;
}

}  // namespace stepsim
