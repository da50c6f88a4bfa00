// How long does each piece of work take alone? Prices every distinct work of a graph once.
#pragma once

#include "models/spec/job.h"
#include "sim/graph/task_costs.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// max(FLOPs / (peak x efficiency), bytes / (HBM bandwidth x efficiency)) + kernels x latency, in
// seconds. Equation and evidence: models/README.md, "Kernels".
double ComputeSeconds(const ComputeWork& work, const GpuSpec& gpu);

struct GraphCosts {
  TaskCosts costs;
  IdVector<WorkId, CollectiveChoice> choices;
};

// REQUIRES: the graph holds no OpaqueWork. Durations are rounded up to a picosecond.
GraphCosts PriceGraph(const TaskGraph& graph, const JobSpec& job);

}  // namespace stepsim
