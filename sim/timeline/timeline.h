// What happened, and why then? Start, end and cause of every task, as arrays. A simulated step and
// a step read from a profiler's trace are the same type.
//
//   task r1: resident 76 us, transfer 77 us, end 107 us, bound by stream predecessor r2
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// What set the start of a task.
enum class Bound : std::uint8_t { kBegin, kDependency, kStreamOrder };

class BoundBy {
 public:
  BoundBy() = default;
  BoundBy(Bound bound, TaskId task)
      : bits_((static_cast<std::uint32_t>(bound) << 30) | static_cast<std::uint32_t>(task)) {}
  Bound bound() const { return static_cast<Bound>(bits_ >> 30); }
  TaskId task() const { return TaskId{bits_ & 0x3FFFFFFFu}; }  // meaningless for kBegin

 private:
  std::uint32_t bits_ = 0;
};

// A collective call across simulated ranks.
struct Meeting {
  SimTime transfer_start{};
  TaskId last_arrival = kNoId<TaskId>;  // the member that the others waited for
};

struct Timeline {
  IdVector<TaskId, SimTime> start;  // of a collective member: when it becomes resident
  IdVector<TaskId, SimTime> end;
  IdVector<TaskId, BoundBy> bound_by;
  IdVector<RendezvousId, Meeting> meetings;
  SimTime makespan{};
  TaskId last_task = kNoId<TaskId>;  // the task that ends last (of equals: the last event)
};

// When the transfer of a task begins: its start, or the last arrival for a member of a rendezvous.
SimTime TransferStart(const TaskGraph& graph, const Timeline& timeline, TaskId task);

// When the last dependency (not stream order) of each task ended.
IdVector<TaskId, SimTime> ReadyTimes(const TaskGraph& graph, const Timeline& timeline);

// One piece of a chain of causes: `task` set the pace from begin to end.
struct PathPiece {
  TaskId task{};
  SimTime begin{};
  SimTime end{};
};

// The task that `task` waited for last: its own cause, or that of the member which arrived last.
BoundBy CauseOf(const TaskGraph& graph, const Timeline& timeline, TaskId task);

// The chain of causes that ends with `last`, earliest piece first. The pieces tile [0, end of last]
// without a gap, so they sum to the step time when last is timeline.last_task.
std::vector<PathPiece> CriticalPath(const TaskGraph& graph, const Timeline& timeline, TaskId last);

}  // namespace stepsim
