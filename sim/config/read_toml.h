// How does TOML become the same tree as YAML and JSON? With lines and columns, keys in the order of
// the document.
//
//   ReadToml("[training]\nseq_len = 8192\n", "train.toml")
//     -> mapping {training: mapping {seq_len: scalar "8192" at train.toml:2:11}}
//
// Texts become quoted scalars; numbers and true, false plain ones. Limits as for ReadConfig:
// hostile text is a ConfigError. A syntax error ends the reading, so it is the only one reported.
#pragma once

#include <string>
#include <string_view>

#include "sim/config/config_node.h"
#include "sim/config/read_config.h"

namespace stepsim {

// Throws ConfigError. A text without any key is an error too.
ConfigNode ReadToml(std::string_view text, const std::string& file_name,
                    const ConfigLimits& limits = {});

}  // namespace stepsim
