// How fast does each task run while others run beside it? Keeps the running set of every rank, asks
// the interference for rates at every start and end, and carries each task's remaining work forward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"
#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

class SharedRates {
 public:
  // A task (or the first member of a rendezvous) whose completion has moved.
  struct Moved {
    TaskId task{};
    SimTime completes{};
  };

  SharedRates(const TaskGraph& graph, const TaskCosts& costs, Interference& interference);

  // A collective member occupies its rank and waits for its peers.
  // Each call returns the completions that moved; the span is valid until the next call.
  std::span<const Moved> Arrive(TaskId member, SimTime now);
  // A task on its own starts, or the members of a rendezvous, all arrived, begin to transfer.
  std::span<const Moved> StartTransfer(std::span<const TaskId> members, SimTime now);
  std::span<const Moved> Finish(std::span<const TaskId> members, SimTime now);

 private:
  struct Progress {
    double remaining_ps = 0;  // of the isolated work
    double rate = 1;          // speed since `since`
    SimTime since{};
  };
  std::size_t Representative(TaskId task) const;
  void Rerate(RankId rank, SimTime now);
  void Settle(TaskId task, SimTime now);

  const TaskGraph& graph_;
  const TaskCosts& costs_;
  Interference& interference_;
  std::vector<std::vector<RunningTask>> running_;  // per rank, by arrival
  std::vector<double> rates_;                      // scratch
  IdVector<TaskId, Progress> progress_;            // of representatives
  IdVector<TaskId, float> member_rate_;            // what its own rank gives each member
  std::vector<Moved> moved_;
};

}  // namespace stepsim
