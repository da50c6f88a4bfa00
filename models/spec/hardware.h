// What machine is asked about? GPUs, the links inside a node and the network between nodes.
// Every value in a file carries its unit and a source; bandwidth is per direction.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

struct PeakRates {  // dense, per GPU; 0 = the GPU has no unit for it
  FlopRate fp32, tf32, bf16, fp16, fp8;
};

struct GpuSpec {
  std::string name;  // "A100-SXM4-80GB"
  PeakRates peak;
  Bandwidth hbm_bandwidth;
  Bytes memory;
  std::int64_t sms = 1;
  double gemm_efficiency = 1;       // reached fraction of the peak, large GEMMs
  double attention_efficiency = 1;  // reached fraction of the peak, fused attention
  double memory_efficiency = 1;     // reached fraction of hbm_bandwidth, memory-bound kernels
  Duration kernel_latency{};        // fixed time of a kernel on the device
};

struct LinkSpec {
  std::string type;       // "nvlink", "pcie", "infiniband", "ethernet", "efa", ...
  Bandwidth bandwidth;    // of one GPU (intra node) or of one NIC (network), nominal
  double efficiency = 1;  // reached fraction for large messages
  Duration latency{};     // per hop of a collective, alpha
};

struct NetworkSpec {
  std::string name;
  LinkSpec link;  // one NIC
  std::int64_t nics_per_node = 1;
};

struct HardwareSpec {
  std::string name;  // "a100-80g-dgx"
  std::string description;
  GpuSpec gpu;
  std::int64_t gpus_per_node = 1;
  LinkSpec intra_node;
  NetworkSpec network;
};

FlopRate PeakOf(const GpuSpec& gpu, DType dtype);

}  // namespace stepsim
