#include "sim/engine/simulate.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/shared_rates.h"
#include "sim/engine/wait_cycle.h"

namespace stepsim {
namespace {

// The costs alone, close together: the loop looks up one per task.
IdVector<WorkId, Duration> IsolatedDurations(const TaskCosts& costs) {
  IdVector<WorkId, Duration> durations;
  durations.reserve(costs.size());
  for (const TaskCost& cost : costs) {
    SIM_CHECK(cost.isolated >= Duration::zero(), "a cost must not be negative");
    durations.push_back(cost.isolated);
  }
  return durations;
}

class EventLoop {
 public:
  EventLoop(const TaskGraph& graph, const TaskCosts& costs, Interference* interference)
      : graph_(graph), durations_(IsolatedDurations(costs)) {
    absent_.reserve(graph.rendezvous_count());
    for (const RendezvousId r : AllIds<RendezvousId>(graph.rendezvous_count())) {
      absent_.push_back(static_cast<std::uint32_t>(graph.members(r).size()));
    }
    timeline_.start = IdVector<TaskId, SimTime>(graph.task_count(), kNever);
    timeline_.end = IdVector<TaskId, SimTime>(graph.task_count(), kNever);
    timeline_.bound_by = IdVector<TaskId, BoundBy>(graph.task_count());
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
      for (const Edge edge : graph.successors(t)) SetWaiting(edge.to(), waiting(edge.to()) + 1);
    }
    timeline_.meetings = IdVector<RendezvousId, Meeting>(graph.rendezvous_count());
    if (interference != nullptr) shared_.emplace(graph, durations_, *interference);
  }

  // The main loop: whatever waits for nothing starts at time zero; each completion lets its
  // successors start; at the end everything has completed, or the rest waits in a circle.
  Timeline Run() {
    for (const TaskId t : AllIds<TaskId>(graph_.task_count())) {
      if (waiting(t) == 0) BecomeResident(t, BoundBy());
    }
    while (HasNext()) {
      const Event event = queue_.Take();
      if (shared_ && !shared_->IsCurrent(event.task, event.time)) continue;  // has moved since
      now_ = event.time;
      if (shared_ && shared_->BeginQueued(event.task)) continue;
      Complete(event.task);
    }
    if (completed_ < graph_.task_count()) {
      throw SimulationError("the job cannot finish: these tasks wait for each other in a circle\n" +
                            DescribeWaitCycle(graph_, timeline_));
    }
    timeline_.makespan = now_;
    return std::move(timeline_);
  }

 private:
  // How many predecessors of a task are not done yet. Until it starts it has no cause: the count
  // lives in the place of the cause, so that the loop touches one array less.
  std::uint32_t waiting(TaskId task) const {
    return static_cast<std::uint32_t>(timeline_.bound_by[task].task());
  }
  void SetWaiting(TaskId task, std::uint32_t count) {
    timeline_.bound_by[task] = BoundBy(Bound::kBegin, TaskId{count});
  }

  // With interference, completions are known only after all that happens at one moment has: the
  // rates are asked for once per moment and rank.
  bool HasNext() {
    if (shared_ && !queue_.is_due()) {
      for (const auto& [task, time] : shared_->Update(now_)) {
        queue_.Push({time, task});
        PrefetchCompletion(task);
      }
    }
    return !queue_.empty();
  }

  // All predecessors are done: the kernel starts. A member of a rendezvous then waits for its
  // peers.
  void BecomeResident(TaskId task, BoundBy cause) {
    timeline_.start[task] = now_;
    timeline_.bound_by[task] = cause;
    const RendezvousId r = graph_.rendezvous(task);
    if (r == kNoId<RendezvousId>) return shared_ ? shared_->Start(task) : Start(task);
    if (shared_) shared_->Arrive(task);
    if (--absent_[Index(r)] > 0) return;
    timeline_.meetings[r] = {now_, task};
    const std::span<const TaskId> members = graph_.members(r);
    shared_ ? shared_->Meet(members) : Start(members.front());
  }

  // At full speed. Of a rendezvous the first member stands for all.
  void Start(TaskId first) {
    const Duration duration = durations_[graph_.work_id(first)];
    if (duration >= kNever - now_) ThrowTooLong();
    queue_.Push({now_ + duration, first});
    PrefetchCompletion(first);
  }

  // What the completion of a task will touch is near by then.
  void PrefetchCompletion(TaskId task) const {
    __builtin_prefetch(graph_.successors(task).data());
    __builtin_prefetch(&timeline_.end[task]);
  }

  void Complete(TaskId task) {
    const RendezvousId r = graph_.rendezvous(task);
    const std::span<const TaskId> members =
        r == kNoId<RendezvousId> ? std::span<const TaskId>(&task, 1) : graph_.members(r);
    for (const TaskId member : members) timeline_.end[member] = now_;
    if (shared_) shared_->Finish(members);
    for (const TaskId member : members) Release(member);
  }

  void Release(TaskId task) {
    ++completed_;
    timeline_.last_task = task;
    for (const Edge edge : graph_.successors(task)) {
      const std::uint32_t waiting_still = waiting(edge.to()) - 1;
      SetWaiting(edge.to(), waiting_still);
      if (waiting_still > 0) continue;
      const Bound bound = edge.is_stream_order() ? Bound::kStreamOrder : Bound::kDependency;
      BecomeResident(edge.to(), BoundBy(bound, task));
    }
  }

  const TaskGraph& graph_;
  const IdVector<WorkId, Duration> durations_;
  std::optional<SharedRates> shared_;  // only with interference
  std::vector<std::uint32_t> absent_;  // members of each rendezvous not resident yet
  EventQueue queue_;
  Timeline timeline_;
  SimTime now_ = kStepBegin;
  std::size_t completed_ = 0;
};

}  // namespace

Timeline Simulate(const TaskGraph& graph, const TaskCosts& costs, Interference* interference) {
  SIM_CHECK(costs.size() == graph.work_count(), "one cost per work");
  return EventLoop(graph, costs, interference).Run();
}

}  // namespace stepsim
