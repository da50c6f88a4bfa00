// The keys of torchtitan's job configuration, of all versions: which of them a job takes over.
#pragma once

#include <vector>

#include "models/import/key_reader.h"

namespace stepsim {

const std::vector<KeyRow>& TorchtitanRows();

}  // namespace stepsim
