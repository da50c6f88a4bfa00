// What does each key of an Accelerate configuration mean here? What `accelerate config` writes.
#pragma once

#include <vector>

#include "models/import/key_reader.h"

namespace stepsim {

const std::vector<KeyRow>& AccelerateRows();

}  // namespace stepsim
