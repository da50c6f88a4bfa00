// What does a kernel ask of its GPU, as fractions of what the GPU has? Computed once per work, so
// that the engine's questions cost a few multiplications.
#pragma once

#include "models/cost/occupancy.h"
#include "models/spec/hardware.h"

namespace stepsim {

struct KernelProfile {
  TaskKind kind = TaskKind::kCompute;
  // SMs: a collective holds so many; a compute kernel can use so many at most.
  double sms = 0;
  double tiles = 0;           // thread blocks of a static grid; 0: unknown, or blocks that stay
  double partial_wave = 1;    // time of a nearly empty last wave over that of a full one
  double waves = 0;           // on all SMs, a partial last one counted as it lasts
  double last_wave = 0;       // what the partial last one lasts, of a full one; 0: none
  double free_at_last = 0;    // SMs that the partial last wave leaves free
  bool counts_waves = false;  // so few of them that the speed follows the SMs in steps

  double hbm = 0;                 // of hbm_bandwidth, alone
  double intra = 0;               // of what the rank's link inside the node reaches, alone
  double network = 0;             // of what the rank's part of the NICs reaches, alone
  RankId sender = kNoId<RankId>;  // of a transfer in one direction; kNoId: it uses both
  double traffic = 0;             // of a collective: its rate over the fastest that a link allows
  double memory = 0;  // of a compute kernel: hbm over what a memory-bound kernel reaches

  double slow_by_traffic = 0;  // compute: slow-down at traffic 1
  bool follows_clock = false;
};

// The GPU and its links, in the units of the profiles.
class KernelProfiler {
 public:
  explicit KernelProfiler(const HardwareSpec& hardware) : hardware_(hardware) {}

  KernelProfile operator()(const Occupancy& occupancy) const;

 private:
  KernelProfile Collective(const Occupancy& occupancy) const;
  KernelProfile Compute(const Occupancy& occupancy) const;

  const HardwareSpec& hardware_;
};

// Speed of a compute kernel on `sms` SMs over that on the whole GPU, in (0, 1].
double SpeedOn(const KernelProfile& kernel, double sms);

}  // namespace stepsim
