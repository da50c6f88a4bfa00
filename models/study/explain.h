// Why is the step as long as it is, and what can be done? Everything that `stepsim explain` shows:
// one struct, filled once, every gain in it simulated.
//
//   const Explanation why = Explain(variants, {});
//   why.diagnosis.text, why.groups[0].largest->cause, why.actions.gains[0].changes
#pragma once

#include <cstddef>
#include <vector>

#include "models/simulate_job.h"
#include "models/study/ceilings.h"
#include "models/study/collective_groups.h"
#include "models/study/diagnosis.h"
#include "models/study/try_actions.h"
#include "models/study/variants.h"
#include "sim/metrics/critical_path.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

struct ExplainRequest {
  std::size_t most_groups = 10;  // of collectives, that get a ceiling of their own
  bool wants_actions = true;
};

struct Explanation {
  Explanation() = default;
  Explanation(Explanation&&) = default;
  Explanation& operator=(Explanation&&) = default;
  Explanation(const Explanation&) = delete;  // the groups point into the report
  Explanation& operator=(const Explanation&) = delete;

  SimulatedStep step;
  StepReport report;
  std::vector<CollectiveGroup> groups;  // largest exposed first
  std::vector<Ceiling> ceilings;        // shortest step first
  Diagnosis diagnosis;
  std::vector<PathRun> path;  // the critical path: its runs sum to the step
  TriedActions actions;
};

// Throws ConfigError and SimulationError as RunStep does.
Explanation Explain(const JobVariants& variants, const ExplainRequest& request);

// How much shorter the step would be at most if these transfers, or this one task, took no time. A
// host that runs ahead still needs its time.
Duration SavedWithout(const Explanation& why, const JobSpec& job,
                      const IdVector<TaskId, char>& marked);

// "nvlink" inside a node, "infiniband" between nodes.
std::string LinkOf(const TaskGraph& graph, TaskId transfer, const JobSpec& job);

}  // namespace stepsim
