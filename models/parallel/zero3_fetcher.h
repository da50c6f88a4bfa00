// When is which parameter gathered and released? DeepSpeed's parameter coordinator: a module's hook
// fetches what is missing, waits for it, and gathers ahead along the recorded order; another one
// releases what nobody needs soon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "models/parallel/strategy.h"
#include "models/parallel/zero3_modules.h"
#include "models/spec/sharding.h"

namespace stepsim {

class Zero3Fetcher {
 public:
  // `communicator`: of the ranks that hold one copy together.
  Zero3Fetcher(const StrategyContext& context, StreamId communicator);

  const ZeroModules& modules() const { return modules_; }

  void BeginMicrostep(RankProgram& rank);
  // The next use of the recorded order.
  void Fetch(RankProgram& rank);
  void Release(RankProgram& rank);
  // Second copies are out of date; parameters that are never partitioned are made equal again.
  void AfterOptimizer(RankProgram& rank);

 private:
  struct State {
    bool is_persistent = false;
    bool is_available = false;  // gathered, or on its way
    bool is_awaited = false;    // on its way, and nobody has waited for it
    bool has_second_copy = false;
    StreamEvent gathered;
    std::size_t satisfied = 0;  // the latest use that the prefetcher counts on it for
  };
  struct Use {
    std::int32_t parameter;
    std::size_t use;
  };
  // Where a gather runs: among all ranks, or inside a node from the second copies.
  struct Route {
    GroupId group{};
    StreamId stream;
    StreamId communicator = kNoId<StreamId>;
  };

  const ParameterTensor& TensorAt(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)];
  }
  State& StateOf(std::int32_t p) { return states_[static_cast<std::size_t>(p)]; }
  Bytes BytesOf(std::int32_t p) const { return SizeOf(sharding_.gather, TensorAt(p).elements); }
  Bytes SecondCopyOf(std::int32_t p) const;

  void Gather(RankProgram& rank, const std::vector<std::int32_t>& parameters,
              const std::string& why);
  void GatherAsOne(RankProgram& rank, const std::vector<std::int32_t>& parameters,
                   const Route& route, const std::string& why);
  void WaitFor(RankProgram& rank, const FetchedModule& module);
  void Prefetch(RankProgram& rank);
  void KeepSecondCopy(RankProgram& rank, std::int32_t parameter);

  const ZeroPlan& plan_;
  const Sharding sharding_;
  const Workload& workload_;
  ZeroModules modules_;
  std::vector<Use> order_;  // of parameters
  std::vector<State> states_;
  StreamId gather_;
  Route all_, node_;
  std::size_t use_ = 0;              // of the modules, now
  std::size_t next_ = 0;             // of the parameters, for the prefetcher
  std::int64_t live_ = 0;            // elements gathered or on their way
  std::deque<StreamEvent> fetches_;  // that the host may have to wait for
};

}  // namespace stepsim
