#include "models/validation/row_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

constexpr std::size_t kLongestShown = 60;

std::string Shown(std::string_view text) {
  return std::string(text.size() > kLongestShown ? text.substr(0, kLongestShown) : text);
}

}  // namespace

void RowJob::Set(std::string_view path, std::string value) {
  SetPath(root_, path, MakePlain(std::move(value)), Place{});
}

bool RowJob::Has(std::string_view path) const {
  const ConfigNode* node = &root_;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->IsMapping() ? node->FindValue(path.substr(0, dot)) : nullptr;
    if (node == nullptr) return false;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return true;
}

bool RowJob::Means(When when) const {
  switch (when) {
    case When::kAlways:
      return true;
    case When::kTensor:
      return degrees.tensor > 1;
    case When::kPipeline:
      return degrees.pipeline > 1;
    case When::kInterleaved:
      return degrees.chunks > 1;
    case When::kReplicas:
      return degrees.data > 1;
    case When::kExperts:
      return degrees.expert > 1;
    case When::kContext:
      return degrees.context > 1;
  }
  return true;
}

void RowJob::Apply(const TextRule& rule) {
  if (!Means(rule.when)) return;
  for (const auto& [path, value] : ParseRuleSettings(rule.settings)) Set(path, value);
}

void RowJob::Assume(std::string_view what, std::string_view why) {
  std::string text = why.empty() ? std::string(what) : fmt::format("{} ({})", what, why);
  if (std::find(assumptions_.begin(), assumptions_.end(), text) == assumptions_.end()) {
    assumptions_.push_back(std::move(text));
  }
}

void RowJob::Skip(std::string_view column, std::string_view why) {
  reasons_.push_back(fmt::format("{}: {}", column, why));
}

std::int64_t RowJob::Integer(std::string_view column, std::int64_t fallback) {
  if (!row_.IsFilled(column)) return fallback;
  const auto value = row_.Integer(column);
  if (!value) {
    Skip(column,
         fmt::format("found '{}', allowed: a whole number from 1", Shown(row_.Text(column))));
  }
  return value.value_or(fallback);
}

void RowJob::SkipUnknown(std::string_view column, std::span<const TextRule> rules) {
  const std::string_view text = row_.Text(column);
  if (text.empty()) return Skip(column, "not stated");
  std::vector<std::string> known;
  for (const TextRule& rule : rules) {
    if (!rule.words.empty()) known.emplace_back(rule.words);
  }
  const std::string nearest = Nearest(PlainWords(text), known);
  Skip(column, fmt::format("found '{}', known: {}{}", Shown(text), fmt::join(known, ", "),
                           nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

const TextRule* RowJob::ApplyFirst(std::string_view column, std::span<const TextRule> rules) {
  const TextRule* rule = FindRule(row_.Text(column), rules);
  if (rule == nullptr) {
    SkipUnknown(column, rules);
    return nullptr;
  }
  if (!row_.IsFilled(column) && !rule->why.empty() && Means(rule->when)) {
    Assume(fmt::format("{}: {}", column, rule->settings.empty() ? "none" : rule->settings),
           rule->why);
  }
  Apply(*rule);
  return rule;
}

void RowJob::ApplyAll(std::string_view column, std::span<const TextRule> rules) {
  const std::string plain = PlainWords(row_.Text(column));
  bool is_known = false;
  for (const TextRule& rule : rules) {
    if (!MatchesWords(plain, rule.words)) continue;
    is_known = true;
    if (plain.empty() && !rule.why.empty() && Means(rule.when)) {
      Assume(fmt::format("{}: {}", column, rule.settings), rule.why);
    }
    Apply(rule);
  }
  if (!is_known) SkipUnknown(column, rules);
}

std::string RowJob::Reason() const { return fmt::format("{}", fmt::join(reasons_, "; ")); }

}  // namespace stepsim
