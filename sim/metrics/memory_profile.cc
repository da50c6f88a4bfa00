#include "sim/metrics/memory_profile.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace stepsim {

namespace {

struct Change {
  SimTime time{};
  const MemoryEvent* event = nullptr;
};

std::vector<std::vector<Change>> ChangesByRank(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<std::vector<Change>> ranks(graph.rank_count());
  for (const MemoryEvent& event : graph.memory_events()) {
    ranks[Index(graph.rank(event.task))].push_back(
        {event.at_end ? timeline.end[event.task] : timeline.start[event.task], &event});
  }
  for (std::vector<Change>& changes : ranks) {
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      const bool a_allocates = a.event->delta.value > 0;
      const bool b_allocates = b.event->delta.value > 0;
      return std::tie(a.time, a_allocates) < std::tie(b.time, b_allocates);
    });
  }
  return ranks;
}

MemoryReport PeakOfRank(const TaskGraph& graph, RankId rank, const std::vector<Change>& changes) {
  const auto& categories = graph.memory_categories();
  std::vector<Bytes> now(categories.size());
  Bytes total;
  for (std::size_t c = 0; c < categories.size(); ++c) {
    now[c] = graph.resident_memory(rank, c);
    total += now[c];
  }
  std::vector<Bytes> at_peak = now;
  Bytes peak = total;
  for (const Change& change : changes) {
    now[change.event->category] += change.event->delta;
    total += change.event->delta;
    if (total <= peak) continue;
    peak = total;
    at_peak = now;
  }
  MemoryReport report;
  for (std::size_t c = 0; c < categories.size(); ++c) {
    report.at_peak.emplace_back(categories[c], at_peak[c]);
  }
  report.total = peak;
  return report;
}

}  // namespace

MemoryReport PeakMemory(const TaskGraph& graph, const Timeline& timeline) {
  const auto changes = ChangesByRank(graph, timeline);
  MemoryReport largest;
  for (const RankId r : AllIds<RankId>(graph.rank_count())) {
    MemoryReport report = PeakOfRank(graph, r, changes[Index(r)]);
    if (Index(r) == 0 || report.total > largest.total) largest = std::move(report);
  }
  return largest;
}

}  // namespace stepsim
