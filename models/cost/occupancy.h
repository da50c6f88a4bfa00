// What does a piece of work take from its rank while it runs? Filled by the cost models, read by
// models/contention.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/graph/work.h"

namespace stepsim {

struct Occupancy {
  TaskKind kind = TaskKind::kCompute;
  ComputeClass compute_class = ComputeClass::kMemory;  // compute only

  // Compute: thread blocks of a static grid, one on an SM at a time. 0: a persistent kernel or one
  // of very many small blocks, whose rate follows the SMs without steps.
  double tiles = 0;
  // Time of a nearly empty last wave over that of a full one; unset: the profile's
  // gpu.contention.partial_wave.
  std::optional<double> partial_wave;
  // Collectives: SMs held from the moment the kernel is resident.
  double sms = 0;

  double hbm = 0;  // bytes/s through HBM while it runs alone
  // Shares of what the link reaches (bandwidth x efficiency), 0..1:
  double intra = 0;    // the rank's NVLink (or PCIe)
  double network = 0;  // the rank's part of the NICs
  // Links carry both directions at once, and a collective uses both. A transfer in one direction
  // uses that out of its sender, and that into the other rank.
  RankId sender = kNoId<RankId>;  // kNoId: both directions
};

}  // namespace stepsim
