// How fast does each task run while others run beside it? Keeps the running set of every rank, asks
// the interference for rates after every moment at which a set changed, and carries each task's
// remaining work forward.
#pragma once

#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"
#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// The step would not fit into SimTime: a SimulationError.
[[noreturn]] void ThrowTooLong();

class SharedRates {
 public:
  // When a task (or the first member of a rendezvous) completes at the rates of now.
  struct Completion {
    TaskId task{};
    SimTime time{};
  };

  SharedRates(const TaskGraph& graph, const IdVector<WorkId, Duration>& durations,
              Interference& interference);

  void Arrive(TaskId member);                   // a member of a rendezvous waits for its peers
  void Start(std::span<const TaskId> members);  // a task alone, or a rendezvous, makes progress
  void Finish(std::span<const TaskId> members);

  // The completions that are new or have moved since the last call, by the changes made at `now`.
  // The span is valid until the next call.
  std::span<const Completion> Update(SimTime now);

  // A transfer that has waited for its place begins now; false when `task` is none, but completes.
  bool BeginQueued(TaskId task);

  // False when the completion has moved away since it was announced.
  bool IsCurrent(TaskId task, SimTime time) const {
    const Progress& progress = ProgressOf(task);
    return progress.task == task && progress.completes == time;
  }

 private:
  struct Progress {
    TaskId task = kNoId<TaskId>;
    bool is_queued = false;   // all peers are there, and one of them has no place yet
    double own_rate = 1;      // what its own rank gives it
    double rate = 0;          // the smallest of all members; 0 before the first Update
    double remaining_ps = 0;  // of the isolated work, at `since`
    SimTime since{};
    SimTime completes{};      // while is_queued: when it begins
    SimTime placed{};         // a transfer has its place on the device from here on
  };
  // A stream holds one task at a time: it is the slot of the task's progress.
  Progress& ProgressOf(TaskId task) { return progress_[graph_.streams(task).front()]; }
  const Progress& ProgressOf(TaskId task) const { return progress_[graph_.streams(task).front()]; }
  TaskId Representative(TaskId task) const;
  std::span<const TaskId> MembersOf(const TaskId& task) const;

  void Add(TaskId task, bool is_transferring);
  RunningTask& RunningOf(TaskId task);
  void MarkChanged(RankId rank);
  void AskForDelay(TaskId transfer, SimTime now);
  double RemainingOf(TaskId task, SimTime now) const;
  bool Queue(TaskId representative, SimTime now);
  void AskForRates(RankId rank);
  void Settle(TaskId representative, SimTime now);

  const TaskGraph& graph_;
  const IdVector<WorkId, Duration>& durations_;
  Interference& interference_;
  IdVector<RankId, std::vector<RunningTask>> running_;  // by arrival
  IdVector<StreamId, Progress> progress_;
  std::vector<RankId> changed_ranks_;  // since the last Update
  IdVector<RankId, char> is_changed_;
  std::vector<TaskId> started_, repaced_;  // representatives, since the last Update
  std::vector<TaskId> arrived_;            // transfers, since the last Update
  std::vector<RunningKernel> kernels_;     // scratch
  std::vector<double> rates_;              // scratch
  std::vector<Completion> completions_;
};

}  // namespace stepsim
