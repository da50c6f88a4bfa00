// Independent answers about a task graph, by Boost.Graph: the oracle of the engine's tests.
#pragma once

#include <optional>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// The length of the longest path over dependencies plus stream order, where a task of work w takes
// durations[w] and the members of a rendezvous end together. With fixed costs this is the makespan.
// nullopt when the constraints contain a cycle (the job would hang).
std::optional<Duration> LongestPath(const TaskGraph& graph,
                                    const IdVector<WorkId, Duration>& durations);

// A topological order of the tasks over the same constraints; empty when there is a cycle.
std::vector<TaskId> TopologicalOrder(const TaskGraph& graph);

}  // namespace stepsim
