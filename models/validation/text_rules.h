// What does a spelling mean? Tables of words with the settings of a job that they stand for; one
// row each, with the sentence that says why. A newcomer who meets a new spelling adds a row.
//
//   constexpr TextRule kRecompute[] = {
//       {"full", "recompute.granularity=full", "every layer runs again"}, ...};
//   FindRule("Full (uniform)", kRecompute)   // the first row
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepsim {

// Lower case; what joins words ('-', '_', '/', brackets, commas) is a blank.
std::string PlainWords(std::string_view text);

// Does the text hold all of these words? The begin of a word is enough ("nvlink" is in "nvlink4"),
// "nemotron_3" is two words in a row; "!pcie" must not be in it, "=full" is the whole text, "" the
// empty one.
bool MatchesWords(std::string_view plain_text, std::string_view words);

// Which jobs a row means anything to.
enum class When { kAlways, kTensor, kPipeline, kInterleaved, kReplicas, kExperts, kContext };

struct TextRule {
  std::string_view words;
  std::string_view settings;  // "path=value; path=value"
  std::string_view why;
  When when = When::kAlways;
};

// The first row that matches; nullptr: none does.
const TextRule* FindRule(std::string_view text, std::span<const TextRule> rules);

// {{"plan.strategy", "ddp"}, ...} of "plan.strategy=ddp; ...".
std::vector<std::pair<std::string, std::string>> ParseRuleSettings(std::string_view settings);

}  // namespace stepsim
