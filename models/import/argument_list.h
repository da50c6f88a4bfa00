// Which arguments does a launch script give? `--key value`, `--key=value` and `--switch`, wherever
// they stand: on the command line, in NAME="..." or in NAME=( ... ), one or many to a line.
//
//   GPUS=8
//   ARGS=(
//     --num-layers 32   # comment
//     --bf16
//   )
//   torchrun --nproc_per_node $GPUS pretrain_gpt.py ${ARGS[@]}
//
//     -> mapping {num-layers: "32" at x.sh:3:18, bf16: true, nproc-per-node: "8"}
//
// No shell: variables that the file sets are put in, nothing is run. A key that comes twice has its
// last value, as argparse has it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sim/config/config_node.h"
#include "sim/config/read_config.h"

namespace stepsim {

struct ArgumentRules {
  std::function<bool(std::string_view key)> is_switch;    // no value follows
  std::function<bool(std::string_view name)> is_setting;  // a variable that is a key of its own
};

// Keys without their dashes, '_' as '-'; scalars, lists where several values follow. Throws
// ConfigError for a text without any argument, or one that is too large.
ConfigNode ReadArguments(std::string_view text, const std::string& file_name,
                         const ArgumentRules& rules, const ConfigLimits& limits = {});

}  // namespace stepsim
