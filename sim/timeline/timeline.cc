#include "sim/timeline/timeline.h"

#include <algorithm>

namespace stepsim {

SimTime TransferStart(const TaskGraph& graph, const Timeline& timeline, TaskId task) {
  const RendezvousId r = graph.rendezvous(task);
  return r == kNoId<RendezvousId> ? timeline.start[task] : timeline.meetings[r].transfer_start;
}

IdVector<TaskId, SimTime> ReadyTimes(const TaskGraph& graph, const Timeline& timeline) {
  IdVector<TaskId, SimTime> ready(graph.task_count(), kStepBegin);
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    for (const Edge edge : graph.successors(t)) {
      if (edge.is_stream_order()) continue;
      ready[edge.to()] = std::max(ready[edge.to()], timeline.end[t]);
    }
  }
  return ready;
}

BoundBy CauseOf(const TaskGraph& graph, const Timeline& timeline, TaskId task) {
  const RendezvousId r = graph.rendezvous(task);
  if (r == kNoId<RendezvousId>) return timeline.bound_by[task];
  return timeline.bound_by[timeline.meetings[r].last_arrival];
}

std::vector<PathPiece> CriticalPath(const TaskGraph& graph, const Timeline& timeline, TaskId last) {
  std::vector<PathPiece> path;
  if (last == kNoId<TaskId>) return path;  // the step has no task
  for (TaskId task = last;;) {
    path.push_back({task, TransferStart(graph, timeline, task), timeline.end[task]});
    const BoundBy cause = CauseOf(graph, timeline, task);
    if (cause.bound() == Bound::kBegin) break;
    task = cause.task();
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace stepsim
