#include "models/spec/wrap_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/base/nearest.h"

namespace stepsim {
namespace {

// Layers in one word: "embedding, layers.0 to layers.31, final_norm".
std::string AllowedModules(const std::vector<std::string>& units) {
  std::vector<std::string> words;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::size_t last = u;
    while (IsLayer(units[u]) && last + 1 < units.size() && IsLayer(units[last + 1])) ++last;
    words.push_back(last == u ? units[u] : fmt::format("{} to {}", units[u], units[last]));
    u = last;
  }
  constexpr std::size_t kMost = 12;
  if (words.size() > kMost + 1) {
    const std::size_t others = words.size() - kMost;
    words.resize(kMost);
    words.push_back(fmt::format("{} others", others));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<std::string> Parts(const std::string& entry) {
  std::vector<std::string> parts(1);
  for (const char c : entry) {
    if (c == '+') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

class WrapResolver {
 public:
  explicit WrapResolver(const std::vector<std::string>& units)
      : units_(units), claimed_by_(units.size()) {}

  void Add(const std::string& entry) {
    const std::vector<std::string> parts = Parts(entry);
    std::vector<std::int32_t> group;
    for (const std::string& part : parts) {
      const std::vector<std::int32_t> fitting = Fitting(part);
      if (fitting.empty()) return result_.problems.push_back(NoSuchModule(part, units_));
      group.insert(group.end(), fitting.begin(), fitting.end());
    }
    for (const std::int32_t unit : group) {
      if (!Claim(unit, entry)) return;
    }
    if (parts.size() == 1) {
      for (const std::int32_t unit : group) result_.groups.push_back({unit, unit});
      return;
    }
    std::sort(group.begin(), group.end());
    if (group.back() - group.front() + 1 != static_cast<std::int32_t>(group.size())) {
      return result_.problems.push_back(
          fmt::format("found '{}', allowed: modules that follow each other, of {}", entry,
                      AllowedModules(units_)));
    }
    result_.groups.push_back({group.front(), group.back()});
  }

  WrappedModules Take() {
    std::sort(result_.groups.begin(), result_.groups.end(),
              [](const UnitRange& a, const UnitRange& b) { return a.first < b.first; });
    return std::move(result_);
  }

 private:
  std::vector<std::int32_t> Fitting(const std::string& pattern) const {
    std::vector<std::int32_t> fitting;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (FitsPattern(units_[u], pattern)) fitting.push_back(static_cast<std::int32_t>(u));
    }
    return fitting;
  }

  bool Claim(std::int32_t unit, const std::string& entry) {
    std::string& owner = claimed_by_[static_cast<std::size_t>(unit)];
    if (owner.empty()) return owner = entry, true;
    result_.problems.push_back(fmt::format("found module '{}' in '{}' and in '{}', allowed: once",
                                           units_[static_cast<std::size_t>(unit)], owner, entry));
    return false;
  }

  const std::vector<std::string>& units_;
  std::vector<std::string> claimed_by_;
  WrappedModules result_;
};

void AddTransformerUnits(const TransformerSpec& spec, std::vector<std::string>& names) {
  names.emplace_back("embedding");
  for (std::int64_t i = 0; i < spec.layers; ++i) names.push_back(fmt::format("layers.{}", i));
  if (spec.final_norm) names.emplace_back("final_norm");
  if (spec.pooler || spec.next_sentence_head) names.emplace_back("pooler");
  if (spec.mlm_head) names.emplace_back("mlm_transform");
  if (spec.causal || spec.mlm_head) {
    names.emplace_back("head");
    names.emplace_back("loss");
  }
}

}  // namespace

bool IsLayer(std::string_view unit) { return unit.starts_with("layers."); }

std::vector<std::string> UnitNames(const JobSpec& job) {
  std::vector<std::string> names;
  if (const auto* spec = TransformerOf(job)) {
    AddTransformerUnits(*spec, names);
  } else {
    for (const LayerSpec& layer : std::get<LayerListSpec>(job.model.network).layers) {
      names.push_back(layer.name);
    }
  }
  return names;
}

bool FitsPattern(std::string_view name, std::string_view pattern) {
  std::size_t n = 0, p = 0;
  std::size_t star = std::string_view::npos, mark = 0;  // of the last `*`, and what it stands for
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string NoSuchModule(std::string_view entry, const std::vector<std::string>& units) {
  std::vector<std::string> candidates = units;
  if (std::any_of(units.begin(), units.end(), IsLayer)) candidates.emplace_back("layers.*");
  const std::string nearest = Nearest(entry, candidates);
  return fmt::format("found '{}', which fits no module, allowed: {}{}", entry,
                     AllowedModules(units),
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

WrappedModules ResolveWrap(const std::vector<std::string>& entries,
                           const std::vector<std::string>& units) {
  WrapResolver resolver(units);
  for (const std::string& entry : entries) resolver.Add(entry);
  return resolver.Take();
}

}  // namespace stepsim
