// Which modules does a list wrap? Names and groups of `wrap: custom`.
//
//   wrap_modules: [embedding, "layers.*", final_norm+head]
//   -> {embedding}, {layers.0}, {layers.1}, ..., {final_norm, head}
//
// An entry is the name of a unit of the network, or a pattern with `*` that wraps each unit that it
// fits. Names joined by `+` are one group, which has to be consecutive. What no entry names stays
// with the root.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/spec/job.h"

namespace stepsim {

// The units of a job's workload, in execution order.
std::vector<std::string> UnitNames(const JobSpec& job);

// Is it one of the layers, "layers.0", "layers.1", ...?
bool IsLayer(std::string_view unit);

// Does `name` fit `pattern`, in which `*` stands for any text?
bool FitsPattern(std::string_view name, std::string_view pattern);

struct UnitRange {
  std::int32_t first = 0;  // inclusive
  std::int32_t last = 0;
};

struct WrappedModules {
  std::vector<UnitRange> groups;      // in execution order
  std::vector<std::string> problems;  // "found 'layer.0', ..., allowed: ...; did you mean ..."
};

WrappedModules ResolveWrap(const std::vector<std::string>& entries,
                           const std::vector<std::string>& units);

// "found 'layer.*', which fits no module, allowed: ..."
std::string NoSuchModule(std::string_view entry, const std::vector<std::string>& units);

}  // namespace stepsim
