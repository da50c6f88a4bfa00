// When is which parameter gathered and released? A module's hook gathers what is missing, waits for
// it, and gathers ahead along the recorded order; another one releases what nobody needs soon
// (zero3_schedule.h says what).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/parallel/zero3_modules.h"
#include "models/parallel/zero3_schedule.h"
#include "models/spec/sharding.h"

namespace stepsim {

// The host waits for the oldest where more fetches than this are unfinished; likewise reductions.
inline constexpr std::size_t kMostUnfinished = 2;

class Zero3Fetcher {
 public:
  // `communicator`: of the ranks that hold one copy together.
  Zero3Fetcher(const StrategyContext& context, StreamId communicator);

  const ZeroModules& modules() const { return modules_; }

  void BeginMicrostep(const Moment& moment);
  // The next use of the recorded order begins; the one that began last is over. (What runs again
  // lies inside the use of a leaf module.)
  void Fetch(RankProgram& rank);
  void Release(RankProgram& rank);
  // Second copies are out of date; parameters that are never partitioned are made equal again.
  void AfterOptimizer(RankProgram& rank);

 private:
  // Where a gather runs: among all ranks, or inside a node from the second copies.
  struct Route {
    GroupId group{};
    StreamId stream;
    StreamId communicator = kNoId<StreamId>;
  };

  const ParameterTensor& TensorAt(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)];
  }
  Bytes BytesOf(std::int32_t p) const { return SizeOf(sharding_.gather, TensorAt(p).elements); }
  Bytes SecondCopyOf(std::int32_t p) const;
  bool HasSecondCopies() const { return plan_.zero_hpz_partition_size > 1; }
  bool HasSecondCopy(std::int32_t p) const {
    return second_copies_[static_cast<std::size_t>(p)].last != kNoId<TaskId>;
  }

  void GatherBeforehand(RankProgram& rank);
  void Gather(RankProgram& rank, const std::vector<std::int32_t>& parameters,
              const std::string& why);
  void GatherFrom(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                  const Route& route, const std::string& why);
  void GatherAsOne(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                   const Route& route, const std::string& why);
  void WaitFor(RankProgram& rank, const std::vector<std::int32_t>& parameters);
  void KeepSecondCopy(RankProgram& rank, std::int32_t parameter);

  const ZeroPlan& plan_;
  const bool is_ideal_;
  const Sharding sharding_;
  const Workload& workload_;
  ZeroModules modules_;
  std::vector<ZeroUse> uses_;  // of one micro-step
  StreamId gather_;
  Route all_, node_;
  std::size_t next_ = 0;                           // use
  std::vector<std::size_t> open_;                  // uses that have begun, the innermost last
  std::vector<std::deque<StreamEvent>> gathered_;  // by parameter, not yet waited for
  std::vector<StreamEvent> second_copies_;         // by parameter
  std::vector<ZeroUse> later_;                     // plan.ideal: not gathered beforehand
  std::deque<StreamEvent> fetches_;                // that the host may have to wait for
};

}  // namespace stepsim
