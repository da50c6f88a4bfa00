// A fitted table of corrections as a file of configs/collectives.
#pragma once

#include <string>

#include "models/spec/collective_spec.h"

namespace stepsim {

std::string CorrectionsYaml(const CollectiveCorrections& table, const std::string& data);

}  // namespace stepsim
