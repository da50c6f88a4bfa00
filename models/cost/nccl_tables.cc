#include "models/cost/nccl_tables.h"

#include <cmath>
#include <limits>
#include <optional>

#include "models/spec/nccl_choice.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr ByProtocol kNone = {0, 0, 0};
constexpr ByProtocol Simple(double us) { return {0, 0, us}; }

// Rows: Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT.
constexpr ByAlgorithm kBase218 = {
    {{6.8, 14, 0}, {6.6, 14, 8.4}, {6.8, 14, 0}, {6.8, 14, 0}, Simple(23), Simple(23), kNone}};
constexpr ByAlgorithm kBase219 = {
    {{6.8, 14, 0}, {6.6, 14, 8.4}, kNone, kNone, kNone, kNone, kNone}};
constexpr ByAlgorithm kBase223 = {
    {{6.8, 14, 8.4}, {6.6, 14, 8.4}, kNone, kNone, kNone, kNone, Simple(8)}};
constexpr ByAlgorithm kBase228 = {
    {{6.8, 14, 8.4}, {6.6, 14, 8.4}, kNone, kNone, kNone, kNone, {8, 8, 8}}};

constexpr ByProtocol kRingNvlink = {.6, 1.9, 3.4};
constexpr ByProtocol kRingPci = {1.0, 2.5, 5.7};
constexpr ByProtocol kRingNet = {2.7, 4.0, 14};

using Hops = std::array<ByAlgorithm, 3>;  // NVLink, PCI, network

constexpr Hops kHops218 = {{
    {{{.6, 1.25, 4}, kRingNvlink, Simple(8), Simple(4.75), kNone, kNone, kNone}},
    {{{1.0, 1.9, 6}, kRingPci, Simple(8), Simple(8), kNone, kNone, kNone}},
    {{{5.0, 8.5, 14}, kRingNet, Simple(10.7), Simple(14), Simple(18), Simple(19), kNone}},
}};
// From here to 2.22 the tree's Simple latency contains that of a chunk.
constexpr Hops HopsWithChunks(double nvls) {
  return {{
      {{{.6, 1.25, 28}, kRingNvlink, Simple(3.7), Simple(2.8), Simple(nvls), Simple(nvls), kNone}},
      {{{1.0, 1.9, 28}, kRingPci, Simple(3.7), Simple(2.8), kNone, kNone, kNone}},
      {{{5.0, 8.5, 28}, kRingNet, Simple(31), Simple(30), Simple(18), Simple(14), kNone}},
  }};
}
constexpr Hops HopsSince223(double nvls_tree_net) {
  return {{
      {{{.6, 1.25, 4}, kRingNvlink, Simple(3.7), Simple(2.8), Simple(25), Simple(25), Simple(4)}},
      {{{1.0, 1.9, 4}, kRingPci, Simple(3.7), Simple(2.8), kNone, kNone, Simple(4)}},
      {{{5.0, 8.5, 14},
        kRingNet,
        Simple(31),
        Simple(30),
        Simple(18),
        Simple(nvls_tree_net),
        Simple(14)}},
  }};
}

// Rows: Volta, Ampere, Hopper, Blackwell. A release without a Blackwell row takes Hopper's.
constexpr ByGeneration kLl218 = {
    {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {87.7, 22.5, 19}}};
constexpr ByGeneration kLl221 = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {141, 45, 35}}};
constexpr ByGeneration kLl225 = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};

constexpr ByGeneration PerChannel(ByNodes volta, ByNodes ampere, ByNodes hopper,
                                  ByNodes blackwell) {
  return {{volta, ampere, hopper, blackwell}};
}
constexpr ByGeneration RingLl128(ByNodes blackwell) {
  return PerChannel({20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, blackwell);
}
constexpr ByGeneration TreeLl128(ByNodes blackwell) {
  return PerChannel({20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, blackwell);
}
constexpr ByGeneration Tree(ByNodes blackwell) {
  return PerChannel({26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, blackwell);
}
constexpr ByGeneration NvlsTree(ByNodes blackwell) {
  return PerChannel({26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, blackwell);
}

constexpr ByNodes kHopperRingLl128 = {36.7, 36.7, 36.7};
constexpr ByNodes kHopperTreeLl128 = {36.7, 36.7, 29};
constexpr ByNodes kHopperTree = {38.7, 41.4, 36};
constexpr ByNodes kTreeLl128Since228 = {55.6, 31.67, 20};
constexpr ByNodes kTreeSince228 = {70, 42.8, 24};
constexpr ByNodes kNvlsTree228 = {0, 96, 43.8};

constexpr std::array<NcclTable, 8> kTables = {{
    {"2.18", 18, kBase218, kHops218, kLl218, RingLl128(kHopperRingLl128),
     TreeLl128(kHopperTreeLl128), Tree(kHopperTree), NvlsTree(kNvlsTree228)},
    {"2.19", 19, kBase219, HopsWithChunks(23), kLl218, RingLl128(kHopperRingLl128),
     TreeLl128(kHopperTreeLl128), Tree(kHopperTree), NvlsTree(kNvlsTree228)},
    {"2.21", 21, kBase219, HopsWithChunks(25), kLl221, RingLl128(kHopperRingLl128),
     TreeLl128(kHopperTreeLl128), Tree(kHopperTree), NvlsTree(kNvlsTree228)},
    {"2.23", 23, kBase223, HopsSince223(14), kLl221, RingLl128(kHopperRingLl128),
     TreeLl128(kHopperTreeLl128), Tree(kHopperTree), NvlsTree(kNvlsTree228)},
    {"2.25", 25, kBase223, HopsSince223(14), kLl225, RingLl128({73.4, 73.4, 73.4}),
     TreeLl128({73.4, 73.4, 58}), Tree({77.4, 82.8, 72}), NvlsTree(kNvlsTree228)},
    {"2.28", 28, kBase228, HopsSince223(20.9), kLl225, RingLl128({73.4, 34.6, 73.4}),
     TreeLl128(kTreeLl128Since228), Tree(kTreeSince228), NvlsTree(kNvlsTree228)},
    {"2.29", 29, kBase228, HopsSince223(20.9), kLl225, RingLl128({40, 40, 40}),
     TreeLl128(kTreeLl128Since228), Tree(kTreeSince228), NvlsTree(kNvlsTree228)},
    {"2.30", 30, kBase228, HopsSince223(20.9), kLl225, RingLl128({40, 40, 40}),
     TreeLl128(kTreeLl128Since228), Tree(kTreeSince228), NvlsTree({0, 96, 80})},
}};

constexpr std::array<std::array<double, 23>, kNcclProtocols> kTreeCorrection = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

}  // namespace

std::span<const NcclTable> NcclTables() { return kTables; }

int NcclMinor(std::string_view text) {
  const std::optional<NcclRelease> release = ParseNcclRelease(text);
  SIM_CHECK(release.has_value(), "the version has been checked");
  if (release->major != 2) return release->major > 2 ? std::numeric_limits<int>::max() : 0;
  return release->minor;
}

const NcclTable& NcclTableFor(std::string_view version) {
  const int minor = NcclMinor(version);
  const NcclTable* found = &kTables.front();
  for (const NcclTable& table : kTables) {
    if (table.minor <= minor) found = &table;
  }
  return *found;
}

const NcclTable& NewestNcclTable() { return kTables.back(); }

double TreeCorrection(NcclProtocol protocol, double bytes) {
  const auto& factors = kTreeCorrection[NcclIndex(protocol)];
  const int step = bytes < 64 ? -1 : std::ilogb(bytes / 64);
  return step < 0 || step >= static_cast<int>(factors.size())
             ? 1.0
             : factors[static_cast<std::size_t>(step)];
}

double NvlsEfficiency(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kVolta:
    case GpuGeneration::kAmpere:
      return 0;
    case GpuGeneration::kHopper:
      return 0.85;
    case GpuGeneration::kBlackwell:
      return 0.74;
  }
  return 0;
}

}  // namespace stepsim
