#include "sim/graph/graph_algorithms.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>
#include <utility>

namespace stepsim {
namespace {

// One vertex per task plus one per rendezvous. A rendezvous vertex stands for "all are resident":
// it follows the residency of each member and precedes its end. Residency and end of a task are
// told apart by a second vertex per member.
struct ConstraintGraph {
  using Csr = boost::compressed_sparse_row_graph<boost::directedS>;
  using Vertex = boost::graph_traits<Csr>::vertex_descriptor;

  explicit ConstraintGraph(const TaskGraph& graph)
      : tasks(graph.task_count()), meetings(graph.rendezvous_count()) {
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    edges.reserve(graph.edge_count());
    for (const TaskId t : AllIds<TaskId>(tasks)) {
      for (const Edge edge : graph.successors(t))
        edges.emplace_back(EndOf(graph, t), Index(edge.to()));
      const RendezvousId r = graph.rendezvous(t);
      if (r != kNoId<RendezvousId>) edges.emplace_back(Index(t), tasks + Index(r));
    }
    csr = Csr(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), tasks + meetings);
  }

  // The vertex whose distance is the end of the task: members end with their meeting.
  std::size_t EndOf(const TaskGraph& graph, TaskId t) const {
    const RendezvousId r = graph.rendezvous(t);
    return r == kNoId<RendezvousId> ? Index(t) : tasks + Index(r);
  }

  std::size_t tasks, meetings;
  Csr csr;
};

// Vertices in reverse topological order; false when there is a cycle.
bool ReverseTopologicalOrder(const ConstraintGraph& constraints,
                             std::vector<ConstraintGraph::Vertex>* order) {
  try {
    boost::topological_sort(constraints.csr, std::back_inserter(*order),
                            boost::vertex_index_map(get(boost::vertex_index, constraints.csr)));
  } catch (const boost::not_a_dag&) {
    return false;
  }
  return true;
}

}  // namespace

std::optional<Duration> LongestPath(const TaskGraph& graph,
                                    const IdVector<WorkId, Duration>& durations) {
  const ConstraintGraph constraints(graph);
  std::vector<ConstraintGraph::Vertex> order;
  if (!ReverseTopologicalOrder(constraints, &order)) return std::nullopt;
  std::vector<Duration> reached(constraints.tasks + constraints.meetings, Duration{});
  Duration longest{};
  for (auto vertex = order.rbegin(); vertex != order.rend(); ++vertex) {
    // Members take no time of their own (residency); the meeting takes the transfer's.
    Duration own{};
    if (*vertex >= constraints.tasks) {
      const RendezvousId r{static_cast<std::uint32_t>(*vertex - constraints.tasks)};
      own = durations[graph.work_id(graph.members(r).front())];
    } else if (graph.rendezvous(TaskId{static_cast<std::uint32_t>(*vertex)}) ==
               kNoId<RendezvousId>) {
      own = durations[graph.work_id(TaskId{static_cast<std::uint32_t>(*vertex)})];
    }
    const Duration end = reached[*vertex] + own;
    longest = std::max(longest, end);
    const auto [first, last] = out_edges(*vertex, constraints.csr);
    for (auto edge = first; edge != last; ++edge) {
      Duration& next = reached[target(*edge, constraints.csr)];
      next = std::max(next, end);
    }
  }
  return longest;
}

std::vector<TaskId> TopologicalOrder(const TaskGraph& graph) {
  const ConstraintGraph constraints(graph);
  std::vector<ConstraintGraph::Vertex> order;
  std::vector<TaskId> tasks;
  if (!ReverseTopologicalOrder(constraints, &order)) return tasks;
  tasks.reserve(constraints.tasks);
  for (auto vertex = order.rbegin(); vertex != order.rend(); ++vertex) {
    if (*vertex < constraints.tasks) tasks.push_back(TaskId{static_cast<std::uint32_t>(*vertex)});
  }
  return tasks;
}

}  // namespace stepsim
