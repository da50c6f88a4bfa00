#include "models/study/ceilings.h"

#include <algorithm>

#include "models/simulate_job.h"
#include "sim/metrics/build_report.h"

namespace stepsim {
namespace {

class Ceilings {
 public:
  Ceilings(const TaskGraph& graph, const TaskCosts& costs, Interference* contention, Duration now)
      : graph_(graph), costs_(costs), contention_(contention), now_(now) {}

  // The transfers for which `vanishes` holds take no time.
  template <class Vanishes>
  Duration Without(Vanishes vanishes, bool meets_peers = true) const {
    IdVector<TaskId, char> marked(graph_.task_count(), 0);
    bool is_any = false;
    for (const TaskId t : AllIds<TaskId>(graph_.task_count())) {
      if (graph_.kind(t) != TaskKind::kTransfer || !vanishes(graph_.label(t).site)) continue;
      marked[t] = 1;
      is_any = true;
    }
    return is_any ? WithoutMarked(marked, meets_peers) : now_;
  }

  Duration WithoutMarked(const IdVector<TaskId, char>& marked, bool meets_peers = true) const {
    TaskCosts costs = costs_;
    costs.push_back({});  // of what takes no time
    return Step(graph_.Without(marked, meets_peers), costs, contention_);
  }

  Duration Step(const TaskGraph& graph, const TaskCosts& costs, Interference* contention) const {
    const Timeline timeline = Simulate(graph, costs, contention);
    return std::min(now_, LastStepWindow(graph, timeline).length());
  }

 private:
  const TaskGraph& graph_;
  const TaskCosts& costs_;
  Interference* contention_;
  Duration now_;
};

}  // namespace

std::vector<Ceiling> FindCeilings(const TaskGraph& graph, const TaskCosts& costs,
                                  Interference* contention, const RankAccount& account) {
  const Ceilings without(graph, costs, contention, account.step);
  std::vector<Ceiling> ceilings;
  for (std::size_t s = 0; s < kSiteCount; ++s) {
    if (account.exposed[s] == Duration::zero()) continue;
    const Site site = static_cast<Site>(s);
    ceilings.push_back(
        {std::string(ToString(site)), without.Without([&](Site at) { return at == site; })});
  }
  if (account.communication > Duration::zero()) {
    ceilings.push_back({"communication", without.Without([](Site) { return true; })});
  }
  if (account.bubble > Duration::zero()) {
    const auto is_pipeline = [](Site site) { return site == Site::kPipelineTransfer; };
    ceilings.push_back({"bubble", without.Without(is_pipeline, /*meets_peers=*/false)});
  }
  if (account.contention > Duration::zero()) {
    ceilings.push_back({"contention", without.Step(graph, costs, nullptr)});
  }
  return ceilings;
}

Duration StepWithout(const TaskGraph& graph, const TaskCosts& costs, Interference* contention,
                     const IdVector<TaskId, char>& marked) {
  return Ceilings(graph, costs, contention, Duration::max()).WithoutMarked(marked);
}

Duration StepWithHostAhead(const JobSpec& job, const Workload& workload) {
  JobGraphs graphs(job, workload);
  const TimedGraph ahead = TimeJob(job, graphs, HostThread::kAhead);
  return LastStepWindow(graphs.Get(HostThread::kAhead).graph, ahead.timeline).length();
}

}  // namespace stepsim
