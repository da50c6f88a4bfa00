// How long do the SMs work on a matrix product? Tiles over SMs in waves; no HBM, no launch.
#pragma once

#include <cstdint>

#include "models/spec/hardware.h"
#include "sim/graph/work.h"

namespace stepsim {

struct GemmTime {
  double seconds = 0;
  double tiles = 0;  // thread blocks of the fastest tile
};

// REQUIRES: a shape (work.m > 0), peak > 0, sms >= 1.
GemmTime TimeOnSms(const ComputeWork& work, const GpuSpec& gpu, const GemmCurve& curve,
                   std::int64_t sms);

// Whole waves in part: w blocks per SM take tail * ceil(w) + (1 - tail) * max(w, 1) block times.
double Waves(double blocks_per_sm, double tail);

}  // namespace stepsim
