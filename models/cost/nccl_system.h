// What does NCCL see of the machine? The group's shape, the links' kinds, and how many channels of
// which speed its graph search lays through them.
//
//   const NcclSystem system = SearchSystem(hardware, placement, NcclTableFor("2.30"));
//   system.ring.channels * system.ring.intra   // 8 x A100: 12 x 20 = 240 GB/s
//
// The search is exact for the systems of models/README.md's table and an approximation elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/cost/nccl_tables.h"
#include "models/spec/gpu_generation.h"
#include "models/spec/hardware.h"
#include "models/topology/placement.h"

namespace stepsim {

struct NcclGraph {
  double channels = 0;
  double intra = 0;  // GB/s of one channel inside a node
  double inter = 0;  // and between nodes
};

struct NcclSystem {
  GpuGeneration generation = GpuGeneration::kAmpere;
  double compute_capability = 8.0;
  std::string_view cpu;
  double ranks = 1;
  double nodes = 1;
  double local_ranks = 1;  // on the fullest node

  NcclLink intra_link = NcclLink::kNvlink;
  bool is_switched = true;      // NVSwitch
  bool is_simple_only = false;  // the network plug-in allows no other protocol
  bool has_ll128_path = true;   // links keep the order of 128-byte stores
  bool same_channels = true;    // all channels take the same path
  bool has_plain_tree = false;  // some rank both feeds the NIC and forwards inside the node
  double intra_latency_us = 0;  // of a hop beyond the table; NCCL does not know of it
  double inter_latency_us = 0;  // declared by the network plug-in

  NcclGraph ring, tree, nvls, collnet;
  std::int64_t ring_ctas = 1;  // execution channels of ring and tree, before a job's limits
  std::int64_t nvls_ctas = 0;
};

// REQUIRES: placement.ranks > 1.
NcclSystem SearchSystem(const HardwareSpec& hardware, const Placement& placement,
                        const NcclTable& table);

// The same system with the rates that its links deliver in place of those that NCCL assumes:
// nominal bandwidth x efficiency (models/README.md, "Collectives"). What a call takes, not what
// NCCL thinks.
NcclSystem WithDeliveredRates(NcclSystem system, const HardwareSpec& hardware,
                              const Placement& placement);

}  // namespace stepsim
