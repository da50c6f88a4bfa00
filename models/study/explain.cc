#include "models/study/explain.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "models/host_pace.h"
#include "models/run_step.h"
#include "models/simulate_job.h"
#include "models/study/try_step.h"
#include "models/topology/placement.h"
#include "models/workload/workload.h"

namespace stepsim {
namespace {

// Simulations are paid for in tasks: as many as fit into a few seconds, so that what is tried does
// not depend on the machine.
constexpr std::size_t kMostTasks = 12'000'000;

std::size_t TriesFor(const TaskGraph& graph) {
  return kMostTasks / std::max<std::size_t>(graph.task_count(), 1);
}

// Without the jitter and the stragglers that the job asks for.
void AddSlowRanks(const JobVariants& variants, const StepReport& report,
                  std::vector<Ceiling>* ceilings) {
  const SimulateSpec& simulate = variants.base().job.simulate;
  if (report.account().peer_wait == Duration::zero()) return;
  if (simulate.stragglers.empty() && simulate.jitter == 0) return;
  ResolvedJob even = variants.base();
  even.job.simulate.stragglers.clear();
  even.job.simulate.jitter = 0;
  const Duration step = report.account().step;
  ceilings->push_back({"slow ranks", std::min(step, TryStep(even).account().step)});
}

// Under a thousandth of the step are events on their way from stream to stream.
constexpr std::int64_t kLeastHost = 1000;

std::vector<Ceiling> CeilingsOf(const JobVariants& variants, const SimulatedStep& step,
                                const Workload& workload, const StepReport& report) {
  const JobSpec& job = variants.base().job;
  const RankAccount& account = report.account();
  std::vector<Ceiling> ceilings =
      FindCeilings(step.graph, step.priced.costs, step.contention.get(), account);
  for (Ceiling& ceiling : ceilings) {
    ceiling.step = WithinHostPace(job, step.pace, ceiling.step, account.step);
  }
  if (account.host * kLeastHost > account.step) {
    ceilings.push_back({"host", std::min(account.step, StepWithHostAhead(job, workload))});
  }
  AddSlowRanks(variants, report, &ceilings);
  std::stable_sort(ceilings.begin(), ceilings.end(),
                   [](const Ceiling& a, const Ceiling& b) { return a.step < b.step; });
  return ceilings;
}

ActionRoom RoomOf(const std::vector<Ceiling>& ceilings, Duration step) {
  const double host = GainOf(ceilings, "host", step);
  // What communicates is launched, too.
  return {std::max({GainOf(ceilings, "communication", step), host,
                    GainOf(ceilings, "contention", step)}),
          GainOf(ceilings, "bubble", step), host};
}

}  // namespace

Duration SavedWithout(const Explanation& why, const JobSpec& job,
                      const IdVector<TaskId, char>& marked) {
  const SimulatedStep& step = why.step;
  const Duration now = why.report.account().step;
  const Duration without =
      StepWithout(step.graph, step.priced.costs, step.contention.get(), marked);
  return now - WithinHostPace(job, step.pace, without, now);
}

std::string LinkOf(const TaskGraph& graph, TaskId transfer, const JobSpec& job) {
  const auto* work = std::get_if<CollectiveWork>(&graph.work(transfer));
  if (work == nullptr) return "";
  const Placement placement = PlaceGroup(graph.group(work->group).ranks, job.gpus_per_node);
  return placement.nodes > 1 ? job.hardware.network.link.type : job.hardware.intra_node.type;
}

Explanation Explain(const JobVariants& variants, const ExplainRequest& request) {
  const ResolvedJob& resolved = variants.base();
  const JobSpec& job = resolved.job;
  const Workload workload = BuildWorkload(job);
  Explanation why;
  why.step = SimulateJob(job, workload);
  SimulatedStep& step = why.step;
  why.report = ReportStep(resolved, workload, step);
  StepReport& report = why.report;
  if (const std::string warning = MemoryWarning(report); !warning.empty()) {
    report.context.warnings.insert(report.context.warnings.begin(), warning);
  }
  why.groups = GroupCollectives(report);
  for (CollectiveGroup& group : why.groups) {
    group.link = LinkOf(step.graph, group.first().task, job);
  }
  why.ceilings = CeilingsOf(variants, step, workload, report);
  std::size_t most = std::min(request.most_groups, TriesFor(step.graph));
  for (CollectiveGroup& group : why.groups) {
    if (most-- == 0 || group.exposed == Duration::zero()) break;
    group.saved = SavedWithout(why, job, MarkGroup(step.graph, group));
  }
  why.diagnosis = Diagnose(report, why.groups, why.ceilings);
  why.path = CondensePath(step.graph, StepPath(step.graph, step.timeline, report.window));
  if (request.wants_actions) {
    why.actions = TryActions(variants, report, RoomOf(why.ceilings, report.account().step),
                             TriesFor(step.graph));
  }
  return why;
}

}  // namespace stepsim
