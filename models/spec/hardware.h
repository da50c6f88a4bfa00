// What machine is asked about? GPUs, the links inside a node and the network between nodes.
// Every value in a file carries its unit and a source; bandwidth is per direction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/calibration_spec.h"
#include "models/spec/collective_spec.h"
#include "models/spec/contention_spec.h"
#include "models/spec/kernel_spec.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

struct PeakRates {  // dense, per GPU; 0 = the GPU has no unit for it
  FlopRate fp32, tf32, bf16, fp16, fp8;
};

struct GpuSpec {
  std::string name;                 // "A100-SXM4-80GB"
  double compute_capability = 8.0;  // CUDA's: 7.0 Volta, 8.0 Ampere, 9.0 Hopper, 10.0 Blackwell
  PeakRates peak;
  Bandwidth hbm_bandwidth;
  Bytes memory;
  std::int64_t sms = 1;
  // Reached fraction of the peak. A curve makes it that of a product that fills every SM with its
  // best tile; without one it holds for every shape.
  double gemm_efficiency = 1;
  std::vector<GemmCurve> gemm;      // by element type
  double attention_efficiency = 1;  // fused attention, forward and backward
  AttentionCurve attention;
  double memory_efficiency = 1;  // reached fraction of hbm_bandwidth, memory-bound kernels
  double memory_residual = 0;    // median |error| of memory-bound kernels; 0: unknown
  Duration kernel_latency{};     // fixed time of a kernel on the device
  ContentionSpec contention;     // what kernels cost each other
};

struct LinkSpec {
  std::string type;       // "nvlink", "pcie", "infiniband", "ethernet", "efa", ...
  Bandwidth bandwidth;    // of one GPU (intra node) or of one NIC (network), nominal
  double efficiency = 1;  // reached fraction for large messages
  Duration latency{};     // per hop of a collective in the alpha_beta and gloo models
  // What a hop costs beyond NCCL's own table (a plug-in transport, a long cable).
  Duration added_latency{};
  // TCP sockets: how many connections share the work, and what one of them can carry (0: no limit).
  std::int64_t streams = 1;
  Bandwidth stream_bandwidth;
};

struct NetworkSpec {
  std::string name;
  LinkSpec link;  // one NIC
  std::int64_t nics_per_node = 1;
  // Spine: the bandwidth of a leaf's nodes over that of its uplinks; 1: full bisection. Groups
  // within one leaf of nodes_per_leaf nodes do not see it (0: every group over two nodes does).
  double oversubscription = 1;
  std::int64_t nodes_per_leaf = 0;
};

struct HardwareSpec {
  std::string name;  // "a100-80g-dgx"
  std::string description;
  GpuSpec gpu;
  std::int64_t gpus_per_node = 1;
  LinkSpec intra_node;
  bool switched = true;        // intra_node: every GPU reaches every other at full rate (NVSwitch)
  std::string cpu = "intel";   // "intel", "amd", "arm", "power": NCCL's table depends on it
  double host_time_scale = 1;  // launches, calls and events against models/README.md; 0: no time
  NetworkSpec network;
  std::vector<CollectivePoint> calibration;        // measured on this system
  std::vector<CollectiveCurve> collective_curves;  // the first that matches holds
};

FlopRate PeakOf(const GpuSpec& gpu, DType dtype);

}  // namespace stepsim
