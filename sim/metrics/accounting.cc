#include "sim/metrics/accounting.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/check.h"

namespace stepsim {
namespace {

// The part of a compute segment that would not have been there alone: the segment's share of its
// task's slow-down, rounded down to a picosecond.
Duration ContentionIn(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                      TaskId task, Duration part) {
  const Duration elapsed = timeline.end[task] - timeline.start[task];
  const Duration stretch = elapsed - costs[graph.work_id(task)].isolated;
  if (stretch <= Duration::zero()) return Duration::zero();
  if (part == elapsed) return stretch;
  // stretch x part / elapsed; the product may need 126 bits.
  const long double product =
      static_cast<long double>(stretch.count()) * static_cast<long double>(part.count());
  return Duration(static_cast<Duration::rep>(product / static_cast<long double>(elapsed.count())));
}

// Calls visit(item, part of it inside the window) for the items that reach into it. Items tile or
// are disjoint, in time order, so that many windows over one step stay cheap.
template <class Item, class Visit>
void ForEachWithin(const std::vector<Item>& items, Interval window, Visit visit) {
  auto item = std::lower_bound(items.begin(), items.end(), window.begin,
                               [](const Item& i, SimTime time) { return i.end <= time; });
  for (; item != items.end() && item->begin < window.end; ++item) {
    visit(*item, Clip({item->begin, item->end}, window));
  }
}

void Add(RankState state, Site site, Duration part, RankAccount* account) {
  switch (state) {
    case RankState::kCompute:
      account->compute += part;
      break;
    case RankState::kExposed:
      account->exposed[static_cast<std::size_t>(site)] += part;
      break;
    case RankState::kPeerWait:
      account->peer_wait += part;
      break;
    case RankState::kBubble:
      account->bubble += part;
      break;
    case RankState::kHost:
      account->host += part;
      break;
    case RankState::kIdle:
      account->idle += part;
      break;
  }
}

RankActivity Observe(const TaskGraph& graph, const Timeline& timeline, RankTasks tasks) {
  RankActivity activity;
  activity.segments = SplitRank(graph, timeline, tasks);
  activity.computing = BusyIntervals(timeline, tasks.compute);
  activity.communicating = BusyIntervals(timeline, tasks.transfers);
  activity.tasks = std::move(tasks);
  return activity;
}

}  // namespace

Duration RankAccount::exposed_total() const {
  return std::accumulate(exposed.begin(), exposed.end(), Duration{});
}

double RankAccount::overlap_fraction() const {
  if (communication == Duration::zero()) return 0;
  return 1 - ToSeconds(profiler_exposed) / ToSeconds(communication);
}

std::vector<RankActivity> ObserveRanks(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<RankActivity> activities;
  for (RankTasks& tasks : TasksByRank(graph)) {
    activities.push_back(Observe(graph, timeline, std::move(tasks)));
  }
  return activities;
}

RankAccount AccountWindow(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                          const RankActivity& activity, Window window) {
  SIM_CHECK(
      window.begin >= kStepBegin && window.end <= timeline.makespan && window.begin <= window.end,
      "a window must lie within the timeline");
  const Interval bounds{window.begin, window.end};
  RankAccount account;
  account.step = window.length();
  ForEachWithin(activity.segments, bounds, [&](const Segment& segment, Interval part) {
    Duration length = part.end - part.begin;
    if (segment.state == RankState::kCompute) {
      const Duration slowed = ContentionIn(graph, costs, timeline, segment.task, length);
      account.contention += slowed;
      length -= slowed;
    }
    Add(segment.state, segment.site, length, &account);
  });
  ForEachWithin(activity.communicating, bounds, [&](const Interval&, Interval part) {
    account.communication += part.end - part.begin;
    account.profiler_exposed += Measure(Subtract(part, activity.computing));
  });
  SIM_CHECK(account.step == account.compute + account.contention + account.exposed_total() +
                                account.peer_wait + account.bubble + account.host + account.idle,
            "the accounting identity does not hold");
  return account;
}

RankAccount AccountRank(const TaskGraph& graph, const TaskCosts& costs, const Timeline& timeline,
                        RankId rank, Window window) {
  RankTasks tasks = std::move(TasksByRank(graph)[Index(rank)]);
  return AccountWindow(graph, costs, timeline, Observe(graph, timeline, std::move(tasks)), window);
}

}  // namespace stepsim
