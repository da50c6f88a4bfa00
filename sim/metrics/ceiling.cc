#include "sim/metrics/ceiling.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/metrics/build_report.h"

namespace stepsim {

void AddCeilings(const TaskGraph& graph, const TaskCosts& costs, std::size_t most,
                 StepReport* report, Interference* interference) {
  std::vector<CollectiveReport*> largest;
  for (CollectiveReport& collective : report->collectives) {
    if (collective.exposed > Duration::zero()) largest.push_back(&collective);
  }
  std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) {
    return a->exposed_transfer() > b->exposed_transfer();
  });
  largest.resize(std::min(largest.size(), most));
  for (CollectiveReport* collective : largest) {
    const TaskGraph without = graph.Without(collective->task);
    TaskCosts cheaper = costs;
    cheaper.push_back({});  // the work of the vanished task
    const Timeline timeline = Simulate(without, cheaper, interference);
    const Duration step = LastStepWindow(without, timeline).length();
    collective->saved = std::max(Duration::zero(), report->account().step - step);
  }
}

}  // namespace stepsim
