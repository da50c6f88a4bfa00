// The machines of the NCCL tests, as their data sheets describe them, and the model that they test.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "models/spec/collective_spec.h"
#include "models/spec/hardware.h"
#include "models/topology/placement.h"

namespace stepsim {

inline HardwareSpec NvlinkMachine(double compute_capability, double nvlink_gb, double nic_gbit,
                                  std::string cpu = "intel", std::int64_t nics = 8) {
  HardwareSpec hardware;
  hardware.gpu.compute_capability = compute_capability;
  hardware.gpus_per_node = 8;
  hardware.intra_node.type = "nvlink";
  hardware.intra_node.bandwidth = {nvlink_gb * 1e9};
  hardware.cpu = std::move(cpu);
  hardware.network.nics_per_node = nics;
  hardware.network.link.type = "infiniband";
  hardware.network.link.bandwidth = {nic_gbit * 1e9 / 8};
  return hardware;
}

inline HardwareSpec Dgx1() {
  HardwareSpec hardware = NvlinkMachine(7.0, 150, 100, "intel", 4);
  hardware.switched = false;
  return hardware;
}
inline HardwareSpec DgxA100() { return NvlinkMachine(8.0, 300, 200, "amd"); }
inline HardwareSpec DgxH100() { return NvlinkMachine(9.0, 450, 400); }
inline HardwareSpec DgxB200() { return NvlinkMachine(10.0, 900, 400); }

// `nodes` full nodes of eight, or part of one.
inline Placement Nodes(std::int64_t nodes, std::int64_t local = 8) {
  return {nodes * local, nodes, local};
}

// NCCL's model by a release's table, without corrections.
inline CollectiveModelSpec Nccl(std::string version = "2.30") {
  CollectiveModelSpec spec;
  spec.model = CollectiveModel::kNccl;
  spec.nccl_version = std::move(version);
  return spec;
}

}  // namespace stepsim
