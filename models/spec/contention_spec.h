// What does running together cost on one GPU? The parameters of models/contention, per hardware
// profile. Equations, ranges and evidence: models/README.md, "Contention".
#pragma once

#include "sim/base/time.h"

namespace stepsim {

enum class ContentionMode {
  kOff,   // overlap is free: the ceiling
  kSm,    // collectives take SMs, and wait for them
  kFull,  // and HBM bandwidth, links, caches, power
};

struct ContentionSpec {
  // Slow-down of a kernel by a collective at full link rate, beyond SMs and HBM: 0.1 is 10 %.
  double gemm = 0.1;
  double attention = 0.1;
  double memory = 0.5;         // of a kernel that saturates the HBM
  double communication = 0.2;  // of a collective, by compute that saturates the HBM
  // Collectives that threads carry (gloo) on the core that computes: what one at full rate takes of
  // it, and how long it waits for its first time slice.
  double core_demand = 0;
  Duration core_wait{};
  // Transports that take processor time (gloo, MPI), whatever their rate: of every kernel beside a
  // transfer, and of a transfer beside compute.
  double transfer_on_compute = 0;
  double compute_on_transfer = 0;
  double hbm_ceiling = 0.92;  // fraction of hbm_bandwidth that all kernels share
  // SMs that compute loses for each that a collective or a copy holds.
  double sm_loss = 1;
  // Time of a nearly empty last wave of thread blocks over that of a full one.
  double partial_wave = 0.55;

  // Power, in watts; power_cap 0: not modelled.
  double power_cap = 0;
  double power_idle = 0;
  double power_compute = 0;        // dense products on all SMs
  double power_communication = 0;  // added by a collective at full link rate
  double power_exponent = 2.5;     // power above idle ~ clock^exponent
};

}  // namespace stepsim
