#include "sim/metrics/memory_profile.h"

#include <algorithm>
#include <boost/sort/flat_stable_sort/flat_stable_sort.hpp>
#include <cmath>
#include <cstddef>
#include <tuple>

namespace stepsim {
namespace {

// What a rank holds at its peak, by category of the graph.
struct Peak {
  std::vector<Bytes> now;
  Bytes total;
  SimTime time{};
  const MemoryEvent* event = nullptr;
};

// What is there when the window begins counts as well, after what is freed at that time. First the
// sum alone, then the categories up to its highest moment: most moments of a forward pass are a new
// peak.
Peak PeakOfRank(const TaskGraph& graph, const MemoryReplay& replay, RankId rank,
                const Window& window) {
  Peak peak;
  peak.now.resize(graph.memory_categories().size());
  Bytes total;
  for (std::size_t c = 0; c < peak.now.size(); ++c) {
    peak.now[c] = graph.resident_memory(rank, c);
    total += peak.now[c];
  }
  peak.total = total;
  peak.time = window.begin;
  const auto& changes = replay.changes(rank);
  std::size_t highest = 0;  // as many changes lead to it
  for (std::size_t i = 0; i < changes.size() && changes[i].time <= window.end; ++i) {
    const MemoryReplay::Change& change = changes[i];
    total += change.event->delta;
    const bool frees = change.event->delta.value < 0;
    const bool is_before = change.time < window.begin || (change.time == window.begin && frees);
    if (!is_before && total <= peak.total) continue;
    highest = i + 1;
    peak.total = total;
    peak.time = std::max(change.time, window.begin);
    peak.event = is_before ? nullptr : change.event;
  }
  for (std::size_t i = 0; i < highest; ++i) {
    peak.now[changes[i].event->category] += changes[i].event->delta;
  }
  return peak;
}

class PeakDescriber {
 public:
  PeakDescriber(const TaskGraph& graph, const Window& window, double slack)
      : graph_(graph), window_(window), slack_(slack) {}

  MemoryPeak Describe(RankId rank, const Peak& peak) const {
    MemoryPeak result;
    Bytes resident, context;
    const auto& categories = graph_.memory_categories();
    for (std::size_t c = 0; c < categories.size(); ++c) {
      result.at_peak.emplace_back(categories[c], peak.now[c]);
      if (categories[c] == kContextMemory) {
        context += peak.now[c];
      } else {
        resident += graph_.resident_memory(rank, c);
      }
    }
    result.allocated = peak.total - context;
    result.reserved = result.allocated;
    if (slack_ > 1) {
      const double passing = static_cast<double>((result.allocated - resident).value);
      const Bytes surplus{std::llround(std::max(0.0, passing) * (slack_ - 1))};
      result.at_peak.emplace_back(kAllocatorSlack, surplus);
      result.reserved += surplus;
    }
    result.total = result.reserved + context;
    result.time = peak.time - window_.begin;
    if (peak.event == nullptr) return result;
    const Label& label = graph_.label(peak.event->task);
    result.task = label.name;
    result.phase = label.phase;
    result.microstep = graph_.position(peak.event->task).microstep;
    return result;
  }

 private:
  const TaskGraph& graph_;
  const Window& window_;
  double slack_;
};

}  // namespace

MemoryReplay::MemoryReplay(const TaskGraph& graph, const Timeline& timeline)
    : graph_(graph), changes_(graph.rank_count()) {
  for (const MemoryEvent& event : graph.memory_events()) {
    changes_[Index(graph.rank(event.task))].push_back(
        {event.at_end ? timeline.end[event.task] : timeline.start[event.task], &event});
  }
  for (std::vector<Change>& changes : changes_) {
    if (changes.empty()) continue;  // the sort wants one
    // Nearly sorted: each stream's are.
    boost::sort::flat_stable_sort(
        changes.begin(), changes.end(), [](const Change& a, const Change& b) {
          const bool a_allocates = a.event->delta.value > 0;
          const bool b_allocates = b.event->delta.value > 0;
          return std::tie(a.time, a_allocates) < std::tie(b.time, b_allocates);
        });
  }
}

void MemoryReplay::Visit(RankId rank,
                         const std::function<void(const MemoryMoment&)>& visitor) const {
  const std::vector<Change>& changes = changes_[Index(rank)];
  std::vector<Bytes> now(graph_.memory_categories().size());
  Bytes total;
  for (std::size_t c = 0; c < now.size(); ++c) {
    now[c] = graph_.resident_memory(rank, c);
    total += now[c];
  }
  visitor({kStepBegin, now, total, nullptr, changes.empty() || changes[0].time > kStepBegin});
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now[changes[i].event->category] += changes[i].event->delta;
    total += changes[i].event->delta;
    const bool is_last = i + 1 == changes.size() || changes[i + 1].time != changes[i].time;
    visitor({changes[i].time, now, total, changes[i].event, is_last});
  }
}

MemoryReport PeakMemory(const TaskGraph& graph, const Timeline& timeline, const Window& window,
                        double slack) {
  const MemoryReplay replay(graph, timeline);
  const PeakDescriber describer(graph, window, slack);
  MemoryReport report;
  for (const RankId r : AllIds<RankId>(graph.rank_count())) {
    report.ranks.push_back(describer.Describe(r, PeakOfRank(graph, replay, r, window)));
    const MemoryPeak& peak = report.ranks.back();
    if (Index(r) > 0 && peak.total <= report.total) continue;
    static_cast<MemoryPeak&>(report) = peak;
    report.highest_rank = Index(r);
  }
  return report;
}

}  // namespace stepsim
