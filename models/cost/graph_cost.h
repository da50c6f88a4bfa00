// How long does each piece of work take alone? Prices every distinct work of a graph once.
#pragma once

#include "models/cost/occupancy.h"
#include "models/spec/job.h"
#include "sim/graph/task_costs.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

struct GraphCosts {
  TaskCosts costs;
  IdVector<WorkId, CollectiveChoice> choices;
  IdVector<WorkId, Occupancy> occupancy;
};

// REQUIRES: the graph holds no OpaqueWork. Durations are rounded up to a picosecond.
GraphCosts PriceGraph(const TaskGraph& graph, const JobSpec& job);

}  // namespace stepsim
