#include <fmt/format.h>

#include <algorithm>

#include "models/chakra/chakra_graph.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

std::vector<std::int32_t> ReadRanks(const std::string& name, const ConfigNode& list,
                                    Diagnostics& diagnostics) {
  std::vector<std::int32_t> ranks;
  for (const ConfigNode& item : list.items) {
    const std::optional<std::int64_t> rank = ParseInteger(item.text);
    if (!rank || *rank < 0 || *rank >= kMostRanks) {
      diagnostics.Add(item.place, fmt::format("group '{}': found {}, allowed: a rank, 0 to {}",
                                              name, DescribeFound(item), kMostRanks - 1));
      continue;
    }
    ranks.push_back(static_cast<std::int32_t>(*rank));
  }
  std::sort(ranks.begin(), ranks.end());
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) {
    diagnostics.Add(list.place, fmt::format("group '{}': found a rank twice", name));
  }
  if (list.items.empty()) {
    diagnostics.Add(list.place,
                    fmt::format("group '{}': found {}, allowed: a list of ranks such as [0, 1]",
                                name, DescribeFound(list)));
  }
  return ranks;
}

}  // namespace

std::map<std::string, std::vector<std::int32_t>> ReadChakraGroups(std::string_view text,
                                                                  const std::string& file) {
  const ConfigNode root = ReadConfig(text, file);
  if (!root.IsMapping()) {
    throw ConfigError(root.place, fmt::format("found {}, allowed: groups by name, as in "
                                              "{{\"0\": [0, 1], \"1\": [2, 3]}}",
                                              DescribeFound(root)));
  }
  std::map<std::string, std::vector<std::int32_t>> groups;
  Diagnostics diagnostics;
  for (const ConfigEntry& entry : root.entries) {
    groups[entry.key] = ReadRanks(entry.key, entry.value, diagnostics);
  }
  diagnostics.ThrowIfAny();
  return groups;
}

}  // namespace stepsim
