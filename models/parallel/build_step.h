// What does every rank do in a step, in host order? Walks micro-steps and units and calls the
// strategy at the moments at which the frameworks act. The graph has no durations.
//
//   BuiltStep step = BuildStep(job, workload);
//   ... simulate step.graph; if one of step.host_work takes longer, that host sets the pace:
//   step = BuildStep(job, workload, HostThread::kLaunches);
#pragma once

#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// Is the host thread in the graph? (models/README.md, "Host": when it is not needed.)
enum class HostThread {
  kAhead,     // no: every launch is done before the device comes to it
  kLaunches,  // yes: one task before every kernel, and at least two steps where it runs ahead
};

struct BuiltStep {
  TaskGraph graph;
  std::vector<HostWork> host_work;  // of the last step, of each simulated rank
};

// One simulated rank stands for all replicas, unless the job unfolds them.
BuiltStep BuildStep(const JobSpec& job, const Workload& workload,
                    HostThread host = HostThread::kAhead);

}  // namespace stepsim
