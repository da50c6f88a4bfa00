// How long do the SMs work on fused attention? Blocks of score rows over SMs; no HBM, no launch.
#pragma once

#include <cstdint>

#include "models/spec/hardware.h"
#include "sim/graph/work.h"

namespace stepsim {

// REQUIRES: a shape (work.m > 0), peak > 0, sms >= 1.
double AttentionSeconds(const ComputeWork& work, const GpuSpec& gpu, std::int64_t sms);

}  // namespace stepsim
