#include "models/run_step.h"

#include <cstddef>
#include <utility>

#include "models/contention/contention.h"
#include "models/cost/graph_cost.h"
#include "models/parallel/build_step.h"
#include "models/step_context.h"
#include "models/workload/workload.h"
#include "sim/metrics/build_report.h"
#include "sim/metrics/ceiling.h"

namespace stepsim {
namespace {

constexpr std::size_t kCeilings = 10;  // as many collectives as the longest list shows

}  // namespace

StepResult RunStep(const ResolvedJob& resolved) {
  const JobSpec& job = resolved.job;
  const Workload workload = BuildWorkload(job);  // how much work is a micro-step?
  TaskGraph graph = BuildStep(job, workload);    // who does what, after what?
  GraphCosts priced = PriceGraph(graph, job);    // how long does each piece take alone?
  const auto contention = MakeContention(graph, priced.occupancy, job);  // and beside others?
  Timeline timeline = Simulate(graph, priced.costs, contention.get());   // when, and why then?
  StepReport report = BuildReport(graph, priced.costs, std::move(priced.choices), timeline,
                                  MakeStepContext(resolved, workload));
  AddCeilings(graph, priced.costs, kCeilings, &report, contention.get());  // what is to win?
  AddWarnings(&report);  // what should the user know besides?
  return {std::move(graph), std::move(timeline), std::move(report)};
}

}  // namespace stepsim
