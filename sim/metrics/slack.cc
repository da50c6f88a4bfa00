#include "sim/metrics/slack.h"

#include <algorithm>
#include <cstdint>

#include "sim/graph/graph_algorithms.h"

namespace stepsim {

IdVector<StreamId, char> MainStreams(const TaskGraph& graph, const Timeline& timeline) {
  IdVector<StreamId, Duration> busy(graph.stream_count());
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    if (graph.kind(t) != TaskKind::kCompute) continue;
    busy[graph.streams(t).front()] += timeline.end[t] - timeline.start[t];
  }
  IdVector<RankId, StreamId> most(graph.rank_count(), kNoId<StreamId>);
  for (const StreamId s : AllIds<StreamId>(graph.stream_count())) {
    StreamId& main = most[graph.stream(s).rank];
    if (main == kNoId<StreamId> || busy[s] > busy[main]) main = s;
  }
  IdVector<StreamId, char> is_main(graph.stream_count(), 0);
  for (const StreamId s : most) {
    if (s != kNoId<StreamId>) is_main[s] = 1;
  }
  return is_main;
}

namespace {

// Last tasks first. Programs are added in an order in which every task follows what it waits for;
// graphs made by hand need not be.
std::vector<TaskId> BackwardOrder(const TaskGraph& graph) {
  bool is_forward = true;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    for (const Edge& edge : graph.successors(t)) is_forward = is_forward && t < edge.to();
  }
  std::vector<TaskId> order;
  if (is_forward) {
    for (const TaskId t : AllIds<TaskId>(graph.task_count())) order.push_back(t);
  } else {
    order = TopologicalOrder(graph);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

IdVector<TaskId, TaskId> FirstUses(const TaskGraph& graph, const Timeline& timeline) {
  const IdVector<StreamId, char> is_main = MainStreams(graph, timeline);
  IdVector<TaskId, TaskId> uses(graph.task_count(), kNoId<TaskId>);
  for (const TaskId t : BackwardOrder(graph)) {
    for (const Edge& edge : graph.successors(t)) {
      const TaskId next = edge.to();
      const bool is_use =
          graph.kind(next) == TaskKind::kCompute && is_main[graph.streams(next).front()] != 0;
      const TaskId use = is_use ? next : uses[next];
      if (use == kNoId<TaskId>) continue;
      if (uses[t] == kNoId<TaskId> || timeline.start[use] < timeline.start[uses[t]]) uses[t] = use;
    }
  }
  return uses;
}

Slack SlackOf(const TaskGraph& graph, const Timeline& timeline, TaskId transfer, TaskId first_use,
              const std::vector<Interval>& computing, SimTime limit) {
  const SimTime begin = TransferStart(graph, timeline, transfer);
  const SimTime end = first_use == kNoId<TaskId> ? std::max(limit, timeline.end[transfer])
                                                 : timeline.start[first_use];
  const Duration to_run = (end - begin) - Measure(Subtract({begin, end}, computing));
  return {to_run, to_run - (timeline.end[transfer] - begin)};
}

}  // namespace stepsim
