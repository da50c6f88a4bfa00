// When does each task of a job happen? Builds, prices and simulates: for the job that is asked
// about, and for jobs like it that are tried for comparison.
//
//   SimulatedStep step = SimulateJob(job, BuildWorkload(job));
//   LastStepWindow(step.graph, step.timeline).length();  // the step's time
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "models/cost/graph_cost.h"
#include "models/host_pace.h"
#include "models/parallel/build_step.h"
#include "models/spec/job.h"
#include "models/workload/workload.h"
#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

struct SimulatedStep {
  TaskGraph graph;
  GraphCosts priced;
  std::unique_ptr<Interference> contention;
  Timeline timeline;
  HostPace pace;
};

// In its steady state. Throws SimulationError when the step cannot finish.
SimulatedStep SimulateJob(const JobSpec& job, const Workload& workload);

// The graphs of a job, with and without the launching thread, each built when it is first needed.
class JobGraphs {
 public:
  // REQUIRES: both outlive this object.
  JobGraphs(const JobSpec& job, const Workload& workload) : job_(job), workload_(workload) {}
  BuiltStep& Get(HostThread host);

 private:
  const JobSpec& job_;
  const Workload& workload_;
  std::optional<BuiltStep> ahead_, launching_;
};

// One graph of a job on the clock.
struct TimedGraph {
  HostThread host = HostThread::kAhead;  // which of the graphs
  GraphCosts priced;
  std::unique_ptr<Interference> contention;
  Timeline timeline;
  HostPace pace;
};

// In its steady state, with the costs of `job`. REQUIRES: `graphs` are of a job that differs in
// costs alone.
TimedGraph TimeJob(const JobSpec& job, JobGraphs& graphs);
// The same with a host of one's choice, whatever the job's own does.
TimedGraph TimeJob(const JobSpec& job, JobGraphs& graphs, HostThread host);

// What a job comes to, for comparing it with another. A step with so many micro-steps that its
// layers exceed `most_work` is carried on from two shorter ones: what each further micro-step adds.
struct TriedJob {
  Duration step{};
  Bytes peak_memory;
};
inline constexpr std::int64_t kMostTriedWork = 16'384;  // layers x micro-steps: about a second
TriedJob TryJob(const JobSpec& job, std::int64_t most_work = kMostTriedWork);

}  // namespace stepsim
