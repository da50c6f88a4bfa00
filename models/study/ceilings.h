// How short could the step be at most? The same step again, where something takes no time: an upper
// bound for every change that hides it, speeds it up or does without it.
#pragma once

#include <string>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/accounting.h"

namespace stepsim {

struct Ceiling {
  // A site ("gradient_reduce"), "communication", "bubble", "contention", "host", "slow ranks".
  std::string what;
  Duration step{};  // without it
};

// One for each part of `account`, that of the slowest rank, which is not empty: every site with
// exposed time, all communication together, the bubble (pipeline transfers take no time and wait
// for nobody), contention. Each is a simulation of its own. Never longer than account.step.
std::vector<Ceiling> FindCeilings(const TaskGraph& graph, const TaskCosts& costs,
                                  Interference* contention, const RankAccount& account);

// The step if the marked tasks took no time; more than before in rare cases, where what is shorter
// comes in another's way. REQUIRES: all are of one kind, and of a rendezvous all are marked or
// none.
Duration StepWithout(const TaskGraph& graph, const TaskCosts& costs, Interference* contention,
                     const IdVector<TaskId, char>& marked);

// The step with a host that is always ahead of the device: no launch is ever waited for.
Duration StepWithHostAhead(const JobSpec& job, const Workload& workload);

}  // namespace stepsim
