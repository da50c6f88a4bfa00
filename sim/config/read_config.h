// How does text become a tree? YAML 1.2 and JSON, read the same way, with line and column.
//
//   ReadConfig("nodes: 2\n", "job.yaml")  -> mapping {nodes: scalar "2" at job.yaml:1:8}
//
// Anchors, aliases and merge keys (<<) are expanded; one document per file; no tags but !!str and
// its like. Hostile text neither crashes nor hangs nor eats memory: whatever goes over a limit is a
// ConfigError, as are duplicate keys and syntax errors (all that can be found, at once).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sim/base/diagnostics.h"
#include "sim/config/config_node.h"

namespace stepsim {

struct ConfigLimits {
  std::size_t max_bytes = std::size_t{8} << 20;  // of the text
  std::size_t max_depth = 100;                   // nested lists and mappings
  std::size_t max_nodes = 500'000;               // after aliases are expanded
};

// Throws ConfigError. A text without any content is an error too.
ConfigNode ReadConfig(std::string_view text, const std::string& file_name,
                      const ConfigLimits& limits = {});

// The same, but duplicate keys, of which the first counts, are only noted: the tree can be read on,
// so that all its problems are reported at once.
ConfigNode ReadConfig(std::string_view text, const std::string& file_name, Diagnostics& duplicates,
                      const ConfigLimits& limits = {});

// Reads the value of `--set path=value`: "4", "ring", "25 MiB", "[1, 25]", "{type: nvlink}". Every
// node gets `place`.
ConfigNode ReadSetValue(std::string_view text, const Place& place);

}  // namespace stepsim
