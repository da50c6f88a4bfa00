#include "models/contention/contention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/contention/max_min.h"

namespace stepsim {
namespace {

constexpr std::size_t kPairs = 1024;  // a power of two

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

std::uint64_t Contention::KeyOf(RankId rank, const RunningTask& task) const {
  return (static_cast<std::uint64_t>(task.work) << 3 | (IsSender(rank, task.work) ? 4u : 0u) |
          (task.is_placed ? 2u : 0u) | (task.is_transferring ? 1u : 0u)) +
         1;
}

void Contention::Rates(RankId rank, std::span<const RunningTask> running, std::span<double> rates) {
  if (running.size() != 2) return Compute(rank, running, rates);
  const std::uint64_t key = KeyOf(rank, running[0]) << 32 ^ KeyOf(rank, running[1]);
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio: spreads keys
  Pair& pair = pairs_[(key * kOdd) >> 32 & (kPairs - 1)];
  if (pair.key != key) {
    pair.key = key;
    Compute(rank, running, pair.rates);
  }
  rates[0] = pair.rates[0];
  rates[1] = pair.rates[1];
}

void Contention::Compute(RankId rank, std::span<const RunningTask> running,
                         std::span<double> rates) {
  resident_.clear();
  for (const RunningTask& task : running) {
    const KernelProfile& kernel = ProfileOf(task.work);
    const bool is_one_way = kernel.sender != kNoId<RankId>;
    const bool is_sender = kernel.sender == rank;
    resident_.push_back({&kernel, task.is_placed, task.is_transferring, !is_one_way || is_sender,
                         !is_one_way || !is_sender});
  }
  std::fill(rates.begin(), rates.end(), 1.0);
  ShareSms(rates);
  if (settings_.mode == ContentionMode::kSm) return;
  ShareLinks(rates);
  if (spec_.core_demand > 0) ShareCore(rates);
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
  ShareMaxMin(sms_ - std::min(held * spec_.sm_loss, most), demands_);
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
    const double alone = resident_[i].moves_data ? demand(resident_[i]) : 0;
    capacity = std::max(capacity, alone);
    demands_.push_back(alone * rates[i]);
    total += demands_.back();
  }
  if (total <= capacity) return;
  ShareMaxMin(capacity, demands_);
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    if (demands_[i] > 0) {
      rates[i] = std::min(rates[i], demands_[i] / demand(resident_[i]));
    }
  }
}

// Each direction of a link by itself. Where all use both, one of them says it.
void Contention::ShareLinks(std::span<double> rates) {
  Share(
      1, [](const Resident& r) { return r.sends ? r.kernel->intra : 0; }, rates);
  Share(
      1, [](const Resident& r) { return r.sends ? r.kernel->network : 0; }, rates);
  if (std::all_of(resident_.begin(), resident_.end(), [](const Resident& r) { return r.sends; })) {
    return;
  }
  Share(
      1, [](const Resident& r) { return r.receives ? r.kernel->intra : 0; }, rates);
  Share(
      1, [](const Resident& r) { return r.receives ? r.kernel->network : 0; }, rates);
}

// Compute would have the core to itself; threads that carry bytes take their part, as much as a
// fair scheduler gives them.
void Contention::ShareCore(std::span<double> rates) {
  Share(
      1,
      [&](const Resident& r) {
        if (r.kernel->kind != TaskKind::kTransfer) return 1.0;
        return r.kernel->sms == 0 ? spec_.core_demand * r.kernel->traffic : 0.0;
      },
      rates);
}

void Contention::ShareHbm(std::span<double> rates) {
  Share(
      spec_.hbm_ceiling, [](const Resident& r) { return r.kernel->hbm; }, rates);
}

// What is left: caches, crossbar, clock.
void Contention::SlowDown(std::span<double> rates) const {
  double traffic = 0, memory = 0;
  bool transfers = false, computes = false;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    if (!resident_[i].moves_data) continue;
    traffic += resident_[i].kernel->traffic * rates[i];
    memory += resident_[i].kernel->memory * rates[i];
    transfers = transfers || resident_[i].kernel->kind == TaskKind::kTransfer;
    computes = computes || resident_[i].kernel->kind == TaskKind::kCompute;
  }
  traffic = std::min(traffic, 1.0);
  memory = std::min(memory, 1.0);
  const double clock = Clock(traffic);
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    const KernelProfile& kernel = *resident_[i].kernel;
    if (kernel.kind == TaskKind::kTransfer) {
      rates[i] /= 1 + spec_.communication * memory;
      if (computes) rates[i] /= 1 + spec_.compute_on_transfer;
    } else {
      rates[i] /= 1 + kernel.slow_by_traffic * traffic;
      if (transfers) rates[i] /= 1 + spec_.transfer_on_compute;
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
  // Copy engines ask for none; threads of the host wait until the kernel's time slice is over.
  if (wanted == 0) return running.empty() ? delay : spec_.core_wait;
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
