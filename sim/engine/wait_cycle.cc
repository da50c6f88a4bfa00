#include "sim/engine/wait_cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/base/check.h"

namespace stepsim {
namespace {

enum class Reason { kDependency, kStreamOrder, kPeer };

struct Wait {
  TaskId for_task = kNoId<TaskId>;
  Reason reason = Reason::kDependency;
};

bool IsUnfinished(const Timeline& timeline, TaskId t) { return timeline.end[t] == kNever; }
bool IsResident(const Timeline& timeline, TaskId t) { return timeline.start[t] != kNever; }

// What each unfinished task waits for: an unfinished predecessor, or a peer that is not there yet.
IdVector<TaskId, Wait> FindWaits(const TaskGraph& graph, const Timeline& timeline) {
  IdVector<TaskId, Wait> waits(graph.task_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (!IsUnfinished(timeline, t)) continue;
    for (const Edge edge : graph.successors(t)) {
      Wait& wait = waits[edge.to()];
      if (wait.for_task != kNoId<TaskId>) continue;
      wait = {t, edge.is_stream_order() ? Reason::kStreamOrder : Reason::kDependency};
    }
    const RendezvousId r = graph.rendezvous(t);
    if (r == kNoId<RendezvousId> || !IsResident(timeline, t)) continue;
    for (const TaskId peer : graph.members(r)) {
      if (IsResident(timeline, peer)) continue;
      waits[t] = {peer, Reason::kPeer};
      break;
    }
  }
  return waits;
}

// The first stream that both occupy.
const std::string& SharedStream(const TaskGraph& graph, TaskId a, TaskId b) {
  const auto streams = graph.streams(a), others = graph.streams(b);
  const auto shared =
      std::find_first_of(streams.begin(), streams.end(), others.begin(), others.end());
  SIM_CHECK(shared != streams.end(), "stream order without a common stream");
  return graph.stream(*shared).name;
}

std::string Describe(const TaskGraph& graph, TaskId t, Wait wait) {
  const std::string head =
      fmt::format("  rank {}: '{}' on {} waits for ", graph.rank_info(graph.rank(t)).global_rank,
                  graph.label(t).name, graph.stream(graph.streams(t).front()).name);
  const std::string& other = graph.label(wait.for_task).name;
  const int other_rank = graph.rank_info(graph.rank(wait.for_task)).global_rank;
  switch (wait.reason) {
    case Reason::kPeer:
      return head + fmt::format("its peer on rank {}", other_rank);
    case Reason::kStreamOrder:
      return head + fmt::format("'{}', issued before it on {}", other,
                                SharedStream(graph, t, wait.for_task));
    case Reason::kDependency:
      break;
  }
  return head + fmt::format("'{}' on rank {}", other, other_rank);
}

}  // namespace

std::string DescribeWaitCycle(const TaskGraph& graph, const Timeline& timeline) {
  const IdVector<TaskId, Wait> waits = FindWaits(graph, timeline);
  TaskId task = kNoId<TaskId>;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (IsUnfinished(timeline, t)) {
      task = t;
      break;
    }
  }
  SIM_CHECK(task != kNoId<TaskId>, "no task is waiting");
  // Every unfinished task waits for an unfinished one, so the walk must come round.
  IdVector<TaskId, char> seen(graph.task_count(), 0);
  while (seen[task] == 0) {
    seen[task] = 1;
    task = waits[task].for_task;
    SIM_CHECK(task != kNoId<TaskId>, "a task waits for nothing");
  }
  constexpr std::size_t kMostLines = 20;
  std::string text;
  std::size_t lines = 0;
  TaskId walker = task;
  do {
    if (lines++ < kMostLines) text += Describe(graph, walker, waits[walker]) + '\n';
    walker = waits[walker].for_task;
  } while (walker != task);
  if (lines > kMostLines) text += fmt::format("  ... and {} more\n", lines - kMostLines);
  text.pop_back();
  return text;
}

}  // namespace stepsim
