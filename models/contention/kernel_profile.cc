#include "models/contention/kernel_profile.h"

#include <algorithm>
#include <cmath>

#include "models/cost/gemm_cost.h"

namespace stepsim {
namespace {

// From here on a wave more or less is lost in the number of them.
constexpr double kManyWaves = 8;

double Clamp01(double x) { return std::clamp(x, 0.0, 1.0); }

}  // namespace

double SpeedOn(const KernelProfile& kernel, double sms) {
  if (sms >= kernel.sms) return 1;
  if (!kernel.counts_waves) return sms / kernel.sms;
  const double at_once = std::max(1.0, std::floor(sms));
  return std::min(1.0, kernel.waves / Waves(kernel.tiles / at_once, kernel.partial_wave));
}

KernelProfile KernelProfiler::operator()(const Occupancy& occupancy) const {
  KernelProfile profile =
      occupancy.kind == TaskKind::kTransfer ? Collective(occupancy) : Compute(occupancy);
  profile.kind = occupancy.kind;
  profile.hbm = occupancy.hbm / hardware_.gpu.hbm_bandwidth.value;
  return profile;
}

KernelProfile KernelProfiler::Collective(const Occupancy& occupancy) const {
  KernelProfile profile;
  profile.sms = occupancy.sms;
  profile.intra = occupancy.intra;
  profile.network = occupancy.network;
  profile.sender = occupancy.sender;
  // What matters to the GPU is the rate through it. NICs carry less than its link inside the node.
  const auto reached = [](const LinkSpec& link) { return link.bandwidth.value * link.efficiency; };
  const NetworkSpec& network = hardware_.network;
  const double nics = static_cast<double>(network.nics_per_node) * reached(network.link) /
                      static_cast<double>(hardware_.gpus_per_node);
  profile.traffic =
      Clamp01(std::max(occupancy.intra, occupancy.network * nics / reached(hardware_.intra_node)));
  return profile;
}

KernelProfile KernelProfiler::Compute(const Occupancy& occupancy) const {
  const GpuSpec& gpu = hardware_.gpu;
  const ContentionSpec& contention = gpu.contention;
  const auto all_sms = static_cast<double>(gpu.sms);
  KernelProfile profile;
  profile.sms = all_sms;
  profile.memory = Clamp01(occupancy.hbm / (gpu.hbm_bandwidth.value * gpu.memory_efficiency));
  if (occupancy.tiles > 0) {
    profile.sms = std::min(all_sms, occupancy.tiles);
    profile.tiles = occupancy.tiles;
    profile.partial_wave = occupancy.partial_wave.value_or(contention.partial_wave);
    profile.waves = Waves(occupancy.tiles / all_sms, profile.partial_wave);
    profile.counts_waves = occupancy.tiles < kManyWaves * all_sms;
    const double rest = std::fmod(occupancy.tiles, all_sms);
    if (rest > 0) {
      const double partial = occupancy.tiles > all_sms ? profile.partial_wave : 1;
      profile.last_wave = partial + (1 - partial) * rest / all_sms;
      profile.free_at_last = all_sms - rest;
    }
  }
  switch (occupancy.compute_class) {
    case ComputeClass::kGemm:
      profile.slow_by_traffic = contention.gemm;
      profile.follows_clock = true;
      break;
    case ComputeClass::kAttention:
      profile.slow_by_traffic = contention.attention;
      profile.follows_clock = true;
      break;
    case ComputeClass::kMemory:
      profile.slow_by_traffic = contention.memory * profile.memory;
      break;
  }
  return profile;
}

}  // namespace stepsim
