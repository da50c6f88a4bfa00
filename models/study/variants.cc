#include "models/study/variants.h"

#include <algorithm>
#include <utility>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

// Whether one of the changes sets the key or one below it.
bool IsSet(const std::string& key, const Changes& changes) {
  return std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
    const std::string path = change.substr(0, change.find('='));
    return path == key || path.rfind(key + ".", 0) == 0;
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
