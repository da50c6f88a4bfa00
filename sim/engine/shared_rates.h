// How fast does each task run while others run beside it? Keeps the running set of every rank, asks
// the interference for rates after every moment at which a set changed, and carries each task's
// remaining work forward.
#pragma once

#include <cstdint>
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

  void Start(TaskId task);                     // meets nobody: makes progress
  void Arrive(TaskId member);                  // a member of a rendezvous waits for its peers
  void Meet(std::span<const TaskId> members);  // all have arrived: they make progress
  void Finish(std::span<const TaskId> members);

  // The completions that are new or have moved since the last call, by the changes made at `now`.
  // The span is valid until the next call.
  std::span<const Completion> Update(SimTime now);

  // False when the completion has moved away since it was announced.
  bool IsCurrent(TaskId task, SimTime time) const {
    const Progress& progress = ProgressOf(task);
    return progress.task == task && progress.completes == time;
  }

  // A transfer that has waited for its place begins now; false when `task` is none, but completes.
  bool BeginQueued(TaskId task) { return queued_ > 0 && ProgressOf(task).is_queued && Begin(task); }

 private:
  struct Progress {
    TaskId task = kNoId<TaskId>;
    bool is_queued = false;   // all peers are there, and one of them has no place yet
    bool is_repaced = false;  // stands in repaced_
    double own_rate = 1;      // what its own rank gives it
    double rate = 0;          // the smallest of all members; 0 before it makes progress
    double remaining_ps = 0;  // of the isolated work, at `since`
    SimTime since{};
    SimTime completes{};  // while is_queued: when it begins
    SimTime placed{};     // a transfer has its place on the device from here on
  };
  // The kernels of a rank, by arrival.
  struct RunningSet {
    std::vector<RunningTask> tasks;
    std::vector<Progress*> progress;
    RankId rank{};
    bool is_changed = false;  // stands in changed_
  };

  // A stream holds one task at a time: it is the slot of the task's progress.
  Progress& ProgressOf(TaskId task) { return progress_[graph_.streams(task).front()]; }
  const Progress& ProgressOf(TaskId task) const { return progress_[graph_.streams(task).front()]; }
  RunningSet& SetOf(TaskId task) { return running_[rank_of_[graph_.streams(task).front()]]; }
  RunningTask& RunningOf(TaskId task);
  TaskId Representative(TaskId task) const;
  std::span<const TaskId> MembersOf(const TaskId& task) const;
  double RateOf(const Progress& progress) const;

  Progress& Add(TaskId task, bool is_transferring);
  static void Remove(TaskId task, RunningSet& set);
  void MarkChanged(RunningSet& set) {
    if (set.is_changed) return;
    set.is_changed = true;
    changed_.push_back(&set);
  }
  void AskForDelay(TaskId transfer, SimTime now);
  double RemainingOf(TaskId task, SimTime now) const;
  bool Queue(Progress& progress, SimTime now);
  bool Begin(TaskId task);
  void AskForRates(RunningSet& set);
  void SetOwnRate(const RunningTask& running, double rate, Progress& progress) {
    if (progress.own_rate == rate) return;
    progress.own_rate = rate;
    if (running.is_transferring) Repace(running.task, progress);
  }
  void Repace(TaskId task, Progress& progress);
  void StartAt(SimTime now, Progress& progress);
  void Settle(SimTime now, Progress& progress);
  void Predict(SimTime now, Progress& progress);

  const TaskGraph& graph_;
  const IdVector<WorkId, Duration>& durations_;
  Interference& interference_;
  IdVector<RankId, RunningSet> running_;
  IdVector<StreamId, RankId> rank_of_;
  IdVector<StreamId, Progress> progress_;  // never grows: pointers into it stay valid
  // Since the last Update:
  std::vector<RunningSet*> changed_;
  std::vector<Progress*> started_, repaced_;  // of representatives
  std::vector<TaskId> arrived_;               // transfers
  int queued_ = 0;                            // transfers that wait for a place now
  SimTime last_place_{};                      // no transfer waits for its place longer
  std::vector<RunningKernel> kernels_;        // scratch
  std::vector<double> rates_;                 // scratch: as many as the largest set
  std::vector<Completion> completions_;
};

}  // namespace stepsim
