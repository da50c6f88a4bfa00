// What does every rank do in a step, in host order? Walks micro-steps and units and calls the
// strategy at the moments at which the frameworks act. The graph has no durations.
#pragma once

#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/graph/task_graph.h"

namespace stepsim {

// One simulated rank stands for all replicas, unless the job unfolds them.
TaskGraph BuildStep(const JobSpec& job, const Workload& workload);

}  // namespace stepsim
