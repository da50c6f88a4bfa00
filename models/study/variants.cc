#include "models/study/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"

namespace stepsim {
namespace {

// Whether one of the changes sets the key or one below it.
bool IsSet(const std::string& key, const Changes& changes) {
  return std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
    return IsAtOrBelow(std::string_view(change).substr(0, change.find('=')), key);
  });
}

// What takes the idle keys of the base job out; empty when anything else is wrong as well.
Changes TakeOut(const ConfigError& error, const Changes& changes) {
  Changes out;
  for (const Diagnostic& problem : error.diagnostics()) {
    if (problem.idle_key.empty() || IsSet(problem.idle_key, changes)) return {};
    out.push_back(problem.idle_key + "=null");
  }
  return out;
}

}  // namespace

Changes BatchChanges(const JobSpec& job, std::int64_t samples, std::int64_t steps) {
  Changes changes = {fmt::format("batch.micro_batch_size={}", samples),
                     fmt::format("batch.gradient_accumulation_steps={}", steps)};
  if (job.batch.global_batch_size) changes.emplace_back("batch.global_batch_size=null");
  return changes;
}

JobVariants::JobVariants(Load load) : load_(std::move(load)), base_(load_({})) {}

ResolvedJob JobVariants::With(const Changes& changes, Changes* made) const {
  constexpr int kMostTries = 4;  // a key that is taken out can leave another one idle
  Changes all = changes;
  for (int tries = 1;; ++tries) {
    try {
      ResolvedJob job = load_(all);
      if (made != nullptr) *made = std::move(all);
      return job;
    } catch (const ConfigError& error) {
      const Changes out = TakeOut(error, changes);
      if (out.empty() || tries == kMostTries) throw;
      all.insert(all.end(), out.begin(), out.end());
    }
  }
}

}  // namespace stepsim
