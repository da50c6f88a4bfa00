// What does each key of a DeepSpeed configuration mean here? DeepSpeed's config-json.md.
#pragma once

#include <vector>

#include "models/import/key_reader.h"

namespace stepsim {

const std::vector<KeyRow>& DeepspeedRows();

}  // namespace stepsim
