// Which constants does NCCL predict with? Latencies and bandwidth limits as each release ships
// them.
//
//   const NcclTable& table = NcclTableFor("2.27.3");            // the table of 2.25 to 2.27
//   table.base_us[NcclIndex(NcclAlgorithm::kRing)][NcclIndex(NcclProtocol::kSimple)]   // 8.4
//
// Source: src/graph/tuning.cc of the releases named below. Units: microseconds, GB/s (1e9 bytes/s).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "models/spec/gpu_generation.h"

namespace stepsim {

enum class NcclAlgorithm { kTree, kRing, kCollNetDirect, kCollNetChain, kNvls, kNvlsTree, kPat };
enum class NcclProtocol { kLl, kLl128, kSimple };
enum class NcclLink { kNvlink, kPci, kNet };

inline constexpr std::size_t kNcclAlgorithms = 7;
inline constexpr std::size_t kNcclProtocols = 3;
inline constexpr std::size_t kNcclGenerations = 4;

template <class Enum>
constexpr std::size_t NcclIndex(Enum value) {
  return static_cast<std::size_t>(value);
}

using ByProtocol = std::array<double, kNcclProtocols>;
using ByAlgorithm = std::array<ByProtocol, kNcclAlgorithms>;  // in the order of NcclAlgorithm
using ByNodes = std::array<double, 3>;                        // one node, two, more
using ByGeneration = std::array<ByNodes, kNcclGenerations>;

struct NcclTable {
  std::string_view name;  // the first release that has it: "2.23"
  int minor = 0;          // of that release; the formulas differ by it
  ByAlgorithm base_us;
  std::array<ByAlgorithm, 3> hop_us;  // by NcclLink
  // Of the bus bandwidth; over several nodes the row is 0 for Intel, 1 for AMD.
  ByGeneration ll_limit;
  // Limits of one channel.
  ByGeneration ring_ll128_limit, tree_ll128_limit, tree_limit, nvls_tree_limit;
};

// Oldest first. NVLS and NVLSTree limits of tables before 2.28 are those of 2.28: not used there.
std::span<const NcclTable> NcclTables();
// The newest table that is not newer than `version` ("2.18", "2.27.3", "2.18.5+"). An older release
// gets the oldest table. REQUIRES: ParseNcclRelease(version) reads it.
const NcclTable& NcclTableFor(std::string_view version);
const NcclTable& NewestNcclTable();

// The second number of a release of NCCL 2; beyond all where the first is larger.
int NcclMinor(std::string_view version);

// What the tree's bandwidth is multiplied with at this size: measured, 64 B to 256 MiB.
double TreeCorrection(NcclProtocol protocol, double bytes);
// Reached part of NVLink's payload rate by reductions in the switch.
double NvlsEfficiency(GpuGeneration generation);

}  // namespace stepsim
