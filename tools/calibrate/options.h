// How do the arguments become a request? With every mistake named: option, found, allowed, nearest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/calibrate/command.h"

namespace stepsim::measure {

// nullopt: --help was asked for and `help` holds the text. Throws ConfigError.
std::optional<Options> ReadOptions(const std::vector<std::string>& arguments,
                                   std::span<const BackendRow> backends, std::string* help);

}  // namespace stepsim::measure
