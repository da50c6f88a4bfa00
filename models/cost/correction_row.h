// How do measured times differ from NCCL's own prediction? The row of a correction table that holds
// for a collective, and what it makes of NCCL's latency and transfer time.
//
//   const CollectiveCorrection& row = FindCorrectionRow(table, {"nvlink", "hopper", "ring", "ll",
//   op}); const CorrectedTime time = Correct(row, latency, transfer);
//
// Equation: models/README.md, "Corrections and calibration".
#pragma once

#include <cstdint>
#include <string_view>

#include "models/spec/collective_spec.h"
#include "models/spec/hardware.h"

namespace stepsim {

struct CorrectionKey {
  std::string_view transport;   // CorrectionTransport
  std::string_view generation;  // GenerationName
  std::string_view algorithm;
  std::string_view protocol;
  std::string_view collective;  // "all_reduce"
};

// The slowest kind of link of a group: the network's type where it spans nodes (RoCE counts as
// InfiniBand: the same verbs), else the node's.
std::string_view CorrectionTransport(const HardwareSpec& hardware, std::int64_t nodes);
bool IsWithinNode(std::string_view transport);  // "nvlink", "pcie"

// NCCL's generations by compute capability: "volta" (and older), "ampere" (8.x, Ada too), "hopper",
// "blackwell".
std::string_view GenerationName(double compute_capability);

// The first row that matches; the identity where none does.
const CollectiveCorrection& FindCorrectionRow(const CollectiveCorrections& table,
                                              const CorrectionKey& key);

struct CorrectedTime {
  double latency = 0;   // what does not depend on the bytes, seconds
  double transfer = 0;  // what does
};
CorrectedTime Correct(const CollectiveCorrection& row, double latency, double transfer);

}  // namespace stepsim
