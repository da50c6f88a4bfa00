// How long does each piece of work take alone? Prices every distinct work of a graph once.
#pragma once

#include "models/cost/occupancy.h"
#include "models/spec/job.h"
#include "sim/graph/task_costs.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// How well is a price known?
struct CostTrust {
  double residual = 0;           // median |error| where its model was fitted; 0: unknown
  bool is_extrapolated = false;  // outside the sizes or shapes of that fit
};

struct GraphCosts {
  TaskCosts costs;
  IdVector<WorkId, CollectiveChoice> choices;
  IdVector<WorkId, Occupancy> occupancy;
  IdVector<WorkId, CostTrust> trust;
};

// REQUIRES: the graph holds no OpaqueWork. Durations are rounded up to a picosecond.
GraphCosts PriceGraph(const TaskGraph& graph, const JobSpec& job);

}  // namespace stepsim
