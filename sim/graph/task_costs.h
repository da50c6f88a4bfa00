// How long does each distinct work take alone, and how is it carried out? The graph has no
// durations: they lie beside it, one per WorkId, so that a what-if reuses the graph and whoever
// prices it needs no engine.
#pragma once

#include <string>

#include "sim/base/ids.h"
#include "sim/base/time.h"

namespace stepsim {

struct TaskCost {
  Duration isolated{};  // duration when nothing runs beside it; of a collective: the transfer
};

// One per distinct work of the graph.
using TaskCosts = IdVector<WorkId, TaskCost>;

// How one collective call of the graph is carried out; indexed by WorkId (empty for compute).
struct CollectiveChoice {
  std::string algorithm;  // "ring"
  std::string protocol;   // "simple"
  Duration alone{};       // the transfer when nothing runs beside it; zero: not known
};

}  // namespace stepsim
