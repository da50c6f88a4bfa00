// How are collectives priced? The job's choice of model and of NCCL's knobs, and the two kinds of
// data that correct NCCL's own table: fitted corrections and measurements of one's own cluster.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/base/time.h"

namespace stepsim {

enum class CollectiveModel {
  kNccl,       // NCCL's algorithms, protocols and choice, corrected by measurements
  kAlphaBeta,  // latency per step plus bytes over bandwidth: arithmetic by hand
  kGloo,       // PyTorch's backend for CPUs: a ring whose every message is announced first
};
enum class CtaPolicy { kDefault, kEfficiency, kZero };  // NCCL_CTA_POLICY

// One row of configs/collectives/*.yaml: how measured times differ from NCCL's own prediction
//
//   t = latency_factor x lat + added_latency + time_factor x T x (1 + (ramp / T)^exponent)
//
// with T = bytes / bw, for one transport, GPU generation, algorithm and protocol. "*" matches any.
// Equation: models/README.md, "Corrections and calibration".
struct CollectiveCorrection {
  // Of the group's slowest link: "nvlink", "pcie", "infiniband" (RoCE too), "efa", ...; or "node"
  // and "network" for all within a node and all between nodes.
  std::string transport = "*";
  std::string generation = "*";  // "volta", "ampere", "hopper", "blackwell": NCCL's, Ada is Ampere
  std::string algorithm = "*";   // "ring", "tree", ...
  std::string protocol = "*";    // "ll", "ll128", "simple"
  std::string collective = "*";  // "all_reduce", ...
  double latency_factor = 1;
  Duration added_latency{};
  double time_factor = 1;
  Duration ramp{};             // pipelines fill: transfers as short as this take twice as long
  double ramp_exponent = 0.5;  // how fast that fades with the size
  double residual = 0;         // median |error| of the fit, a fraction; 0: unknown
  Bytes smallest;              // sizes that the row was fitted to
  Bytes largest;               // 0: unknown
};

struct CollectiveCorrections {
  std::string name;  // "nccl"
  std::string description;
  std::vector<CollectiveCorrection> rows;
};

// One measured time on the user's own cluster. Predictions for the same collective and group shape
// are scaled to pass through the points (log-log between them).
struct CollectivePoint {
  std::string collective = "all_reduce";
  std::int64_t nodes = 1;
  std::int64_t ranks = 1;
  Bytes size;  // as nccl-tests counts it
  Duration time{};
};

// "nccl", "alpha_beta", "gloo".
std::string_view ToString(CollectiveModel model);

struct CollectiveModelSpec {
  CollectiveModel model = CollectiveModel::kNccl;
  std::string nccl_version = "2.27";
  std::string algorithm;      // NCCL_ALGO's grammar; "": NCCL chooses
  std::string protocol;       // NCCL_PROTO's grammar; "": NCCL chooses
  std::string all_reduce;     // one algorithm for all_reduces; "": by `algorithm`
  std::int64_t min_ctas = 0;  // 0: NCCL's own
  std::int64_t max_ctas = 0;
  bool nvls = true;                 // NCCL_NVLS_ENABLE
  bool collnet = false;             // NCCL_COLLNET_ENABLE: SHARP in the network
  bool registered_buffers = false;  // user buffers registered with NCCL
  bool symmetric_memory = false;    // symmetric windows: their own kernels inside a node
  CtaPolicy cta_policy = CtaPolicy::kDefault;
  std::int64_t gloo_threads = 2;           // of a process group: collectives in flight
  std::string corrections = "nccl";        // a file of configs/collectives; "none"
  CollectiveCorrections correction_table;  // what that names
};

}  // namespace stepsim
