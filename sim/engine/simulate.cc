#include "sim/engine/simulate.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/shared_rates.h"
#include "sim/engine/wait_cycle.h"

namespace stepsim {
namespace {

class EventLoop {
 public:
  EventLoop(const TaskGraph& graph, const TaskCosts& costs, Interference* interference)
      : graph_(graph), costs_(costs), waiting_for_(graph.task_count(), 0) {
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
      for (const Edge edge : graph.successors(t)) ++waiting_for_[edge.to()];
    }
    for (const RendezvousId r : AllIds<RendezvousId>(graph.rendezvous_count())) {
      absent_.push_back(static_cast<std::uint32_t>(graph.members(r).size()));
    }
    timeline_.start = IdVector<TaskId, SimTime>(graph.task_count(), kNever);
    timeline_.end = IdVector<TaskId, SimTime>(graph.task_count(), kNever);
    timeline_.bound_by = IdVector<TaskId, BoundBy>(graph.task_count());
    timeline_.meetings = IdVector<RendezvousId, Meeting>(graph.rendezvous_count());
    queue_.Reserve(graph.stream_count() + 1);
    if (interference != nullptr) {
      shared_.emplace(graph, costs, *interference);
      sequence_of_ = IdVector<TaskId, std::uint32_t>(graph.task_count(), 0);
    }
  }

  // The main loop: whatever waits for nothing starts at time zero; each completion lets its
  // successors start; at the end everything has completed, or the rest waits in a circle.
  Timeline Run() {
    for (const TaskId t : AllIds<TaskId>(graph_.task_count())) {
      if (waiting_for_[t] == 0) BecomeResident(t, BoundBy());
    }
    while (!queue_.empty()) {
      const Event event = queue_.Take();
      if (shared_ && sequence_of_[event.task] != event.sequence) continue;  // has moved since
      now_ = event.time;
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
  // All predecessors are done: the kernel starts. A member of a rendezvous then waits for its peers.
  void BecomeResident(TaskId task, BoundBy cause) {
    timeline_.start[task] = now_;
    timeline_.bound_by[task] = cause;
    const RendezvousId r = graph_.rendezvous(task);
    if (r == kNoId<RendezvousId>) {
      StartTransfer({&task, 1});
      return;
    }
    if (shared_) Reschedule(shared_->Arrive(task, now_));
    if (--absent_[Index(r)] > 0) return;
    timeline_.meetings[r] = {now_, task};
    StartTransfer(graph_.members(r));
  }

  void StartTransfer(std::span<const TaskId> members) {
    if (shared_) {
      Reschedule(shared_->StartTransfer(members, now_));
    } else {
      const TaskId first = members.front();
      queue_.Push({now_ + costs_[graph_.work_id(first)].isolated, NextSequence(), first});
    }
  }

  void Reschedule(std::span<const SharedRates::Moved> moved) {
    for (const auto& [task, completes] : moved) {
      sequence_of_[task] = NextSequence();
      queue_.Push({completes, sequence_of_[task], task});
    }
  }

  void Complete(TaskId task) {
    const RendezvousId r = graph_.rendezvous(task);
    const std::span<const TaskId> members =
        r == kNoId<RendezvousId> ? std::span<const TaskId>(&task, 1) : graph_.members(r);
    for (const TaskId member : members) timeline_.end[member] = now_;
    if (shared_) Reschedule(shared_->Finish(members, now_));
    for (const TaskId member : members) Release(member);
  }

  void Release(TaskId task) {
    ++completed_;
    timeline_.last_task = task;
    for (const Edge edge : graph_.successors(task)) {
      if (--waiting_for_[edge.to()] > 0) continue;
      const Bound bound = edge.is_stream_order() ? Bound::kStreamOrder : Bound::kDependency;
      BecomeResident(edge.to(), BoundBy(bound, task));
    }
  }

  std::uint32_t NextSequence() {
    SIM_CHECK(sequence_ < std::numeric_limits<std::uint32_t>::max(), "too many events");
    return ++sequence_;
  }

  const TaskGraph& graph_;
  const TaskCosts& costs_;
  std::optional<SharedRates> shared_;           // only with interference
  IdVector<TaskId, std::uint32_t> waiting_for_;  // predecessors not done yet
  std::vector<std::uint32_t> absent_;            // members of each rendezvous not resident yet
  IdVector<TaskId, std::uint32_t> sequence_of_;  // of the event that counts, with interference
  EventQueue queue_;
  Timeline timeline_;
  SimTime now_ = kStepBegin;
  std::uint32_t sequence_ = 0;
  std::size_t completed_ = 0;
};

// No simulated time can exceed the sum of all costs: checked once, so that the loop need not.
void CheckRange(const TaskGraph& graph, const TaskCosts& costs) {
  double total = 0;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const Duration cost = costs[graph.work_id(t)].isolated;
    SIM_CHECK(cost >= Duration::zero(), "a cost must not be negative");
    total += static_cast<double>(cost.count());
  }
  if (total > 9e18) {
    throw SimulationError(
        "the costs add up to more than 100 days: check sizes, rates and the number of tasks");
  }
}

}  // namespace

Timeline Simulate(const TaskGraph& graph, const TaskCosts& costs, Interference* interference) {
  SIM_CHECK(costs.size() == graph.work_count(), "one cost per work");
  CheckRange(graph, costs);
  return EventLoop(graph, costs, interference).Run();
}

}  // namespace stepsim
