// What does NCCL predict for one algorithm and protocol? A latency and a bandwidth, as its tuner
// stores them:  t = latency + bytes / bandwidth.
//
//   const NcclAlgorithmRow& ring = RowOf(NcclAlgorithm::kRing);
//   const NcclCall call{CollectiveOp::kAllReduce, NcclProtocol::kSimple, system, table};
//   ring.predict(call)   // 8 x H100: 56.0 us, 205.7 GB/s
//
// One file per algorithm, one row each in nccl_algorithms.cc. Equations: models/README.md,
// "Collectives".
#pragma once

#include <span>
#include <string_view>

#include "models/cost/nccl_system.h"
#include "models/cost/nccl_tables.h"
#include "models/spec/collective_spec.h"
#include "sim/graph/work.h"

namespace stepsim {

struct NcclCall {
  CollectiveOp op = CollectiveOp::kAllReduce;
  NcclProtocol protocol = NcclProtocol::kSimple;
  const NcclSystem& system;
  const NcclTable& table;
};

struct NcclPrediction {
  double latency_us = 0;
  double bandwidth = 0;  // GB/s of the algorithm: bytes as nccl-tests counts them, over time
};

struct NcclAlgorithmRow {
  NcclAlgorithm algorithm;
  std::string_view name;  // "nvls_tree"
  // Why NCCL would not consider it for this call; "" if it would.
  std::string_view (*refusal)(const NcclCall& call, const CollectiveModelSpec& spec);
  NcclPrediction (*predict)(const NcclCall& call);
};

std::span<const NcclAlgorithmRow> NcclAlgorithmRows();  // in NCCL's order
const NcclAlgorithmRow& RowOf(NcclAlgorithm algorithm);
std::string_view NameOf(NcclProtocol protocol);  // "ll128"

// Why no algorithm may use this protocol here; "" if it may. `is_asked_for`: the job names it,
// which lifts NCCL's caution.
std::string_view ProtocolRefusal(const NcclCall& call, bool is_asked_for);

// NCCL's corrections by size: the tree's bandwidth, the plateau of a ring between nodes.
NcclPrediction CorrectedForSize(const NcclCall& call, NcclAlgorithm algorithm, double bytes,
                                NcclPrediction prediction);
inline double Microseconds(const NcclPrediction& p, double bytes) {
  return p.latency_us + bytes / (1000 * p.bandwidth);
}

// ---- For the algorithms' files ----

bool IsGatherOrScatter(CollectiveOp op);  // all_gather, reduce_scatter
// Steps of a ring: 2 (n-1) for an all_reduce, n-1 for all_gather and reduce_scatter, else n.
double RingSteps(CollectiveOp op, double ranks);
double BaseLatency(const NcclCall& call, NcclAlgorithm algorithm);
double HopLatency(const NcclCall& call, NcclLink link, NcclAlgorithm algorithm);
// A hop between nodes: the table's, what the plug-in declares, and that once more for the flush
// that ends a Simple transfer.
double InterHop(const NcclCall& call, NcclAlgorithm algorithm);
double Limit(const ByGeneration& limits, const NcclSystem& system);  // by generation and nodes
double LlLimit(const NcclCall& call);
// Of an all_gather or reduce_scatter in the switch with registered buffers: multicasts alone, none
// of the copies that an all_reduce pays for. GB/s of the algorithm, delivered.
double MulticastBandwidth(const NcclSystem& delivered);

}  // namespace stepsim
