// What does running together cost? The engine's interference for GPUs: kernels that run at the same
// time on one rank share its SMs, its HBM, its links, its caches and its power.
//
//   const std::unique_ptr<Interference> contention = MakeContention(priced.occupancy, job);
//   Timeline timeline = Simulate(graph, priced.costs, contention.get());
//
// Equations, ranges and evidence: models/README.md, "Contention".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/contention/kernel_profile.h"
#include "models/cost/occupancy.h"
#include "models/spec/job.h"
#include "sim/engine/simulate.h"
#include "sim/graph/work.h"

namespace stepsim {

struct ContentionSettings {
  ContentionMode mode = ContentionMode::kFull;
  StreamPriority priority = StreamPriority::kDefault;  // of the collectives' streams
};

class Contention : public Interference {
 public:
  // A work beyond `occupancy` asks for nothing (TaskGraph::Without).
  Contention(const IdVector<WorkId, Occupancy>& occupancy, const HardwareSpec& hardware,
             ContentionSettings settings);

  void Rates(RankId rank, std::span<const RunningTask> running, std::span<double> rates) override;
  Duration StartDelay(RankId rank, const RunningTask& transfer,
                      std::span<const RunningKernel> running) override;

 private:
  struct Resident {
    const KernelProfile* kernel = nullptr;
    bool holds_sms = true;
    bool moves_data = true;
    bool sends = true, receives = true;
  };

  // What two kernels give each other, computed once: the usual case by far.
  struct Pair {
    std::uint64_t key = 0;  // 0: empty
    double rates[2] = {1, 1};
  };

  const KernelProfile& ProfileOf(WorkId work) const {
    return Index(work) < profiles_.size() ? profiles_[work] : nothing_;
  }
  // Whether a transfer in one direction goes out of this rank.
  bool IsSender(RankId rank, WorkId work) const { return ProfileOf(work).sender == rank; }
  // A kernel and what it is doing, in 32 bits. Not 0.
  std::uint64_t KeyOf(RankId rank, const RunningTask& task) const;
  void Compute(RankId rank, std::span<const RunningTask> running, std::span<double> rates);
  void ShareSms(std::span<double> rates);
  void ShareLinks(std::span<double> rates);
  void ShareCore(std::span<double> rates);
  void ShareHbm(std::span<double> rates);
  void SlowDown(std::span<double> rates) const;
  double Clock(double traffic) const;
  Duration DelayBehind(const RunningKernel& running, double wanted_sms) const;
  // Each demands demand(kernel) x its rate of a capacity, or of what the greediest takes alone.
  template <class DemandOf>
  void Share(double capacity, DemandOf demand, std::span<double> rates);

  IdVector<WorkId, KernelProfile> profiles_;
  KernelProfile nothing_;
  ContentionSettings settings_;
  ContentionSpec spec_;
  double sms_;
  std::vector<Resident> resident_;  // scratch
  std::vector<double> demands_;
  std::vector<Pair> pairs_;  // by hash of the key; a later pair takes the place of an earlier one
};

// None when the job says off.
std::unique_ptr<Interference> MakeContention(const IdVector<WorkId, Occupancy>& occupancy,
                                             const JobSpec& job);

}  // namespace stepsim
