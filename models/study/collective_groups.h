// Which collectives are alike? Those of layers 0 to 31 are one line, not 32.
//
//   GroupCollectives(report)[0]   // 4 x "all_gather layers.31..28", exposed 142 ms together
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/task_graph.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// Collectives with the same name but for its numbers, of one site, size, group and way, those that
// are exposed apart from those that are hidden. Of several micro-steps all are together.
struct CollectiveGroup {
  std::string name;                            // "all_gather layers.31..28"
  std::vector<const CollectiveReport*> calls;  // by start; into the report
  // Sums over the calls. `exposed` is without what a pipeline waits for: that is bubble.
  Duration exposed{}, hidden{}, slowed{};
  Duration least_slack{};
  // Of those of the cause that exposes the most, the one with the most: it speaks for the group.
  const CollectiveReport* largest = nullptr;
  std::string link;               // "NVLink inside a node", "infiniband"; set by Explain
  std::optional<Duration> saved;  // how much shorter the step is without all of them

  const CollectiveReport& first() const { return *calls.front(); }
};

// By exposed time, largest first; then by start. REQUIRES: `report` outlives the groups.
std::vector<CollectiveGroup> GroupCollectives(const StepReport& report);

// Marks the calls of a group, and those on other simulated ranks that do the same there: for
// StepWithout (ceilings.h).
IdVector<TaskId, char> MarkGroup(const TaskGraph& graph, const CollectiveGroup& group);

// "all_gather layers.31" -> "all_gather layers.#"
std::string WithoutNumbers(const std::string& name);

}  // namespace stepsim
