#include "models/study/explain_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "sim/base/diagnostics.h"
#include "sim/base/nearest.h"

namespace stepsim {
namespace {

constexpr std::size_t kMostNames = 5;  // in a message

const CollectiveReport* FindCollective(const StepReport& report, TaskId task) {
  for (const CollectiveReport& c : report.collectives) {
    if (c.task == task) return &c;
  }
  return nullptr;
}

// Tasks of that name that run in the reported step.
std::vector<TaskId> TasksNamed(const Explanation& why, const std::string& name) {
  std::vector<TaskId> tasks;
  const Window& window = why.report.window;
  for (const TaskId t : AllIds<TaskId>(why.step.graph.task_count())) {
    if (why.step.graph.label(t).name != name) continue;
    if (why.step.timeline.end[t] > window.begin && why.step.timeline.start[t] < window.end) {
      tasks.push_back(t);
    }
  }
  return tasks;
}

[[noreturn]] void ThrowUnknown(const TaskGraph& graph, const std::string& name) {
  std::set<std::string> known;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) known.insert(graph.label(t).name);
  const std::string nearest = Nearest(name, {known.begin(), known.end()});
  std::vector<std::string> alike;  // that hold what was asked for
  for (const std::string& other : known) {
    if (alike.size() < kMostNames && other.find(name) != std::string::npos) alike.push_back(other);
  }
  std::string text =
      "found no such task in the step, allowed: a name as in the table of "
      "collectives or in the trace";
  if (!alike.empty()) text += fmt::format(", such as {}", fmt::join(alike, ", "));
  if (!nearest.empty()) text += fmt::format("; did you mean '{}'?", nearest);
  throw ConfigError(Place{"--task " + name, 0, 0}, text);
}

TaskId Choose(const Explanation& why, const std::vector<TaskId>& tasks) {
  const auto rank_of = [&](TaskId t) { return Index(why.step.graph.rank(t)); };
  const auto weight = [&](TaskId t) {
    const CollectiveReport* c = FindCollective(why.report, t);
    return std::make_pair(rank_of(t) == why.report.reported_rank,
                          c == nullptr ? Duration::zero() : c->exposed);
  };
  TaskId best = tasks.front();
  for (const TaskId t : tasks) {
    if (weight(t) >= weight(best)) best = t;
  }
  return best;
}

std::vector<ExplainedTask::Cause> CausesOf(const Explanation& why, TaskId task) {
  std::vector<ExplainedTask::Cause> causes;
  while (causes.size() < kMostCauses) {
    const RendezvousId r = why.step.graph.rendezvous(task);
    const bool is_of_peer =
        r != kNoId<RendezvousId> && why.step.timeline.meetings[r].last_arrival != task;
    const BoundBy cause = CauseOf(why.step.graph, why.step.timeline, task);
    if (cause.bound() == Bound::kBegin) break;
    task = cause.task();
    const SimTime end = kStepBegin + (why.step.timeline.end[task] - why.report.window.begin);
    causes.push_back({task, cause.bound() == Bound::kStreamOrder, is_of_peer, end});
    if (why.step.timeline.end[task] <= why.report.window.begin) break;
  }
  return causes;
}

std::vector<ExplainedTask::Waiting> WaitingFor(const Explanation& why, TaskId task) {
  std::vector<ExplainedTask::Waiting> waiting;
  for (const Edge& edge : why.step.graph.successors(task)) {
    const BoundBy bound = why.step.timeline.bound_by[edge.to()];
    const bool is_held_up = bound.bound() != Bound::kBegin && bound.task() == task;
    const SimTime start =
        kStepBegin + (why.step.timeline.start[edge.to()] - why.report.window.begin);
    waiting.push_back({edge.to(), edge.is_stream_order(), is_held_up, start});
  }
  return waiting;
}

}  // namespace

ExplainedTask ExplainTask(const Explanation& why, const JobSpec& job, const std::string& name) {
  const std::vector<TaskId> tasks = TasksNamed(why, name);
  if (tasks.empty()) ThrowUnknown(why.step.graph, name);
  const TaskId task = Choose(why, tasks);
  const auto relative = [&](SimTime time) { return kStepBegin + (time - why.report.window.begin); };
  ExplainedTask explained;
  explained.task = task;
  explained.namesakes = tasks.size();
  explained.ready = relative(ReadyTimes(why.step.graph, why.step.timeline)[task]);
  explained.start = relative(why.step.timeline.start[task]);
  explained.transfer_start = relative(TransferStart(why.step.graph, why.step.timeline, task));
  explained.end = relative(why.step.timeline.end[task]);
  explained.alone = why.step.priced.costs[why.step.graph.work_id(task)].isolated;
  explained.causes = CausesOf(why, task);
  explained.waiting = WaitingFor(why, task);
  explained.collective = FindCollective(why.report, task);
  if (explained.collective != nullptr) explained.ready = explained.collective->ready;
  if (why.step.graph.kind(task) != TaskKind::kHost) {
    IdVector<TaskId, char> marked(why.step.graph.task_count(), 0);
    marked[task] = 1;
    const RendezvousId r = why.step.graph.rendezvous(task);
    if (r != kNoId<RendezvousId>) {
      for (const TaskId member : why.step.graph.members(r)) marked[member] = 1;
    }
    explained.saved = SavedWithout(why, job, marked);
  }
  return explained;
}

}  // namespace stepsim
