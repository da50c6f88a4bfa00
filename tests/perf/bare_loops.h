// What would a plain loop cost on the same graph? The floors that the engine is measured against:
// raw arrays, nothing recorded but the end of the step.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"
#include "tests/support/sketch.h"

namespace stepsim {

// A task graph as plain arrays. A rendezvous is one more vertex: it follows every member, takes the
// members' duration and precedes what they precede; the members take no time of their own.
struct BareGraph {
  std::vector<std::int64_t> duration;
  std::vector<std::uint32_t> waits_for;         // number of predecessors
  std::vector<std::uint32_t> successors_begin;  // one more than vertices
  std::vector<std::uint32_t> successors;
};
BareGraph ToBare(const TaskGraph& graph);

// The event loop one would write: a std::priority_queue of (end, vertex), counters of predecessors.
std::int64_t RunBareHeapLoop(const BareGraph& bare);

// Predecessors in topological order, for the sweep.
struct BareSweep {
  std::vector<std::uint32_t> order;
  std::vector<std::int64_t> duration;  // in that order
  std::vector<std::uint32_t> predecessors_begin;
  std::vector<std::uint32_t> predecessors;  // positions in the order
};
BareSweep ToSweep(const BareGraph& bare);

// The longest path in one pass.
std::int64_t RunSweep(const BareSweep& sweep);

}  // namespace stepsim
