// How short could the step be at most? The same step again, where something takes no time: an upper
// bound for every change that hides it, speeds it up or does without it.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/accounting.h"

namespace stepsim {

struct Ceiling {
  std::string what;  // a site ("gradient_reduce"), "communication", "bubble", "contention"
  Duration step{};   // without it
};

// One for each part of `account`, that of the slowest rank, which is not empty: every site with
// exposed time, all communication together, the bubble (pipeline transfers take no time and wait
// for nobody), contention. Each is a simulation of its own. Never longer than account.step.
std::vector<Ceiling> FindCeilings(const TaskGraph& graph, const TaskCosts& costs,
                                  Interference* contention, const RankAccount& account);

}  // namespace stepsim
