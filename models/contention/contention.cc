#include "models/contention/contention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/contention/max_min.h"

namespace stepsim {
namespace {

constexpr std::size_t kPairs = 1024;  // a power of two

// A kernel and what it is doing, in 32 bits. Not 0.
std::uint64_t Key(const RunningTask& task) {
  return (static_cast<std::uint64_t>(task.work) << 2 | (task.is_placed ? 2u : 0u) |
          (task.is_transferring ? 1u : 0u)) +
         1;
}

}  // namespace

Contention::Contention(const IdVector<WorkId, Occupancy>& occupancy, const HardwareSpec& hardware,
                       ContentionSettings settings)
    : settings_(settings),
      spec_(hardware.gpu.contention),
      sms_(static_cast<double>(hardware.gpu.sms)),
      pairs_(kPairs) {
  const KernelProfiler profile(hardware);
  profiles_.reserve(occupancy.size());
  for (const Occupancy& work : occupancy) profiles_.push_back(profile(work));
}

void Contention::Rates(RankId, std::span<const RunningTask> running, std::span<double> rates) {
  if (running.size() != 2) return Compute(running, rates);
  const std::uint64_t key = Key(running[0]) << 32 ^ Key(running[1]);
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio: spreads keys
  Pair& pair = pairs_[(key * kOdd) >> 32 & (kPairs - 1)];
  if (pair.key != key) {
    pair.key = key;
    Compute(running, pair.rates);
  }
  rates[0] = pair.rates[0];
  rates[1] = pair.rates[1];
}

void Contention::Compute(std::span<const RunningTask> running, std::span<double> rates) {
  resident_.clear();
  for (const RunningTask& task : running) {
    resident_.push_back({&ProfileOf(task.work), task.is_placed, task.is_transferring});
  }
  std::fill(rates.begin(), rates.end(), 1.0);
  ShareSms(rates);
  if (settings_.mode == ContentionMode::kSm) return;
  ShareLinks(rates);
  ShareHbm(rates);
  SlowDown(rates);
}

// Collectives hold what they hold; compute kernels share the rest, but have at least one SM.
void Contention::ShareSms(std::span<double> rates) {
  double held = 0;
  demands_.clear();
  for (const Resident& r : resident_) {
    if (r.kernel->kind == TaskKind::kTransfer) {
      if (r.holds_sms) held += r.kernel->sms;
    } else {
      demands_.push_back(r.kernel->sms);
    }
  }
  const double most = demands_.empty() ? sms_ : std::max(sms_ - 1, sms_ / 2);
  const double collective_rate = held > most ? most / held : 1;
  ShareMaxMin(sms_ - std::min(held, most), demands_);
  std::size_t next = 0;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    const KernelProfile& kernel = *resident_[i].kernel;
    rates[i] =
        kernel.kind == TaskKind::kTransfer ? collective_rate : SpeedOn(kernel, demands_[next++]);
  }
}

template <class DemandOf>
void Contention::Share(double capacity, DemandOf demand, std::span<double> rates) {
  demands_.clear();
  double total = 0;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    const double alone = resident_[i].moves_data ? demand(*resident_[i].kernel) : 0;
    capacity = std::max(capacity, alone);
    demands_.push_back(alone * rates[i]);
    total += demands_.back();
  }
  if (total <= capacity) return;
  ShareMaxMin(capacity, demands_);
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    if (demands_[i] > 0) {
      rates[i] = std::min(rates[i], demands_[i] / demand(*resident_[i].kernel));
    }
  }
}

void Contention::ShareLinks(std::span<double> rates) {
  Share(
      1, [](const KernelProfile& kernel) { return kernel.intra; }, rates);
  Share(
      1, [](const KernelProfile& kernel) { return kernel.network; }, rates);
}

void Contention::ShareHbm(std::span<double> rates) {
  Share(
      spec_.hbm_ceiling, [](const KernelProfile& kernel) { return kernel.hbm; }, rates);
}

// What is left: caches, crossbar, clock.
void Contention::SlowDown(std::span<double> rates) const {
  double traffic = 0, memory = 0;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    if (!resident_[i].moves_data) continue;
    traffic += resident_[i].kernel->traffic * rates[i];
    memory += resident_[i].kernel->memory * rates[i];
  }
  traffic = std::min(traffic, 1.0);
  memory = std::min(memory, 1.0);
  const double clock = Clock(traffic);
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    const KernelProfile& kernel = *resident_[i].kernel;
    if (kernel.kind == TaskKind::kTransfer) {
      rates[i] /= 1 + spec_.communication * memory;
    } else {
      rates[i] /= 1 + kernel.slow_by_traffic * traffic;
      if (kernel.follows_clock) rates[i] *= clock;
    }
  }
}

// The clock beside a collective over the clock alone; isolated durations have the latter in them.
double Contention::Clock(double traffic) const {
  if (spec_.power_cap <= 0) return 1;
  const double budget = spec_.power_cap - spec_.power_idle;
  const double alone = spec_.power_compute - spec_.power_idle;
  const double together = alone + traffic * spec_.power_communication;
  if (budget <= 0 || alone <= 0 || together <= budget) return 1;
  return std::pow(std::max(budget, alone) / std::max(budget, together), 1 / spec_.power_exponent);
}

// Thread blocks are never interrupted: a collective gets its SMs as blocks of others end.
Duration Contention::StartDelay(RankId, const RunningTask& transfer,
                                std::span<const RunningKernel> running) {
  const double wanted = ProfileOf(transfer.work).sms;
  Duration delay{};
  if (wanted == 0) return delay;  // copy engines ask for none
  for (const RunningKernel& kernel : running) delay = std::max(delay, DelayBehind(kernel, wanted));
  return delay;
}

Duration Contention::DelayBehind(const RunningKernel& running, double wanted_sms) const {
  const KernelProfile& kernel = ProfileOf(running.work);
  if (wanted_sms <= sms_ - kernel.sms) return {};  // there is room beside it
  const bool is_first = settings_.priority == StreamPriority::kHigh;
  if (kernel.tiles == 0) return is_first ? Duration{} : running.remaining;
  const double wave = static_cast<double>(running.isolated.count()) / kernel.waves;
  if (is_first) {  // halfway through a wave, on average
    return std::min(running.remaining, Duration(static_cast<Duration::rep>(wave / 2)));
  }
  // Blocks of a kernel that was launched before go first: only its last wave may leave room.
  if (wanted_sms > kernel.free_at_last) return running.remaining;
  const Duration last(static_cast<Duration::rep>(kernel.last_wave * wave));
  return std::max(Duration{}, running.remaining - last);
}

std::unique_ptr<Interference> MakeContention(const IdVector<WorkId, Occupancy>& occupancy,
                                             const JobSpec& job) {
  // A ceiling that were slower for more overlap would be none.
  if (job.contention == ContentionMode::kOff || job.plan.ideal) return nullptr;
  return std::make_unique<Contention>(occupancy, job.hardware,
                                      ContentionSettings{job.contention, PriorityOf(job)});
}

}  // namespace stepsim
