// How long does each distinct work take alone, what does it occupy, and how is it carried out? The
// graph has no durations: they lie beside it, one per WorkId, so that a what-if reuses the graph
// and whoever prices it needs no engine.
#pragma once

#include <string>

#include "sim/base/ids.h"
#include "sim/base/time.h"

namespace stepsim {

// What a task takes from its rank while it runs. Shares are fractions of the whole, 0..1.
struct Demand {
  double sms = 0;
  double hbm = 0;
  double link = 0;
};

struct TaskCost {
  Duration isolated{};  // duration when nothing runs beside it; of a collective: the transfer
  Demand demand;
};

// One per distinct work of the graph.
using TaskCosts = IdVector<WorkId, TaskCost>;

// How one collective call of the graph is carried out; indexed by WorkId (empty for compute).
struct CollectiveChoice {
  std::string algorithm;  // "ring"
  std::string protocol;   // "simple"
};

}  // namespace stepsim
