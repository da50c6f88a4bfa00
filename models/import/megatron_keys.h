// The arguments of Megatron-LM (megatron/training/arguments.py) and of torchrun in front of them,
// without their dashes.
#pragma once

#include <vector>

#include "models/import/key_reader.h"

namespace stepsim {

const std::vector<KeyRow>& MegatronRows();

}  // namespace stepsim
