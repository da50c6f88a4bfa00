#include "tests/perf/bare_loops.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace stepsim {

BareGraph ToBare(const TaskGraph& graph) {
  BareGraph bare;
  const std::size_t tasks = graph.task_count();
  bare.duration.resize(tasks + graph.rendezvous_count());
  bare.waits_for.resize(bare.duration.size());
  const TaskCosts costs = CostsFromTags(graph);
  const auto begin_vertex = [&] {
    bare.successors_begin.push_back(static_cast<std::uint32_t>(bare.successors.size()));
  };
  const auto add_successors_of = [&](TaskId t) {
    for (const Edge edge : graph.successors(t)) {
      bare.successors.push_back(static_cast<std::uint32_t>(edge.to()));
    }
  };
  for (const TaskId t : AllIds<TaskId>(tasks)) {
    begin_vertex();
    const RendezvousId r = graph.rendezvous(t);
    if (r == kNoId<RendezvousId>) {
      bare.duration[Index(t)] = costs[graph.work_id(t)].isolated.count();
      add_successors_of(t);
    } else {
      bare.successors.push_back(static_cast<std::uint32_t>(tasks + Index(r)));
    }
  }
  for (const RendezvousId r : AllIds<RendezvousId>(graph.rendezvous_count())) {
    begin_vertex();
    const TaskId first = graph.members(r).front();
    bare.duration[tasks + Index(r)] = costs[graph.work_id(first)].isolated.count();
    for (const TaskId member : graph.members(r)) add_successors_of(member);
  }
  begin_vertex();
  for (const std::uint32_t to : bare.successors) ++bare.waits_for[to];
  return bare;
}

std::int64_t RunBareHeapLoop(const BareGraph& bare) {
  using Event = std::pair<std::int64_t, std::uint32_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
  std::vector<std::uint32_t> waits_for = bare.waits_for;
  for (std::uint32_t v = 0; v < waits_for.size(); ++v) {
    if (waits_for[v] == 0) queue.emplace(bare.duration[v], v);
  }
  std::int64_t now = 0;
  while (!queue.empty()) {
    const auto [time, vertex] = queue.top();
    queue.pop();
    now = time;
    for (std::uint32_t e = bare.successors_begin[vertex]; e < bare.successors_begin[vertex + 1];
         ++e) {
      const std::uint32_t to = bare.successors[e];
      if (--waits_for[to] == 0) queue.emplace(now + bare.duration[to], to);
    }
  }
  return now;
}

BareSweep ToSweep(const BareGraph& bare) {
  BareSweep sweep;
  std::vector<std::uint32_t> waits_for = bare.waits_for;
  std::vector<std::uint32_t> position(waits_for.size());
  for (std::uint32_t v = 0; v < waits_for.size(); ++v) {
    if (waits_for[v] == 0) sweep.order.push_back(v);
  }
  for (std::size_t i = 0; i < sweep.order.size(); ++i) {
    const std::uint32_t v = sweep.order[i];
    position[v] = static_cast<std::uint32_t>(i);
    sweep.duration.push_back(bare.duration[v]);
    for (std::uint32_t e = bare.successors_begin[v]; e < bare.successors_begin[v + 1]; ++e) {
      if (--waits_for[bare.successors[e]] == 0) sweep.order.push_back(bare.successors[e]);
    }
  }
  sweep.predecessors_begin.assign(sweep.order.size() + 1, 0);
  for (std::size_t i = 0; i < sweep.order.size(); ++i) {
    sweep.predecessors_begin[i + 1] = sweep.predecessors_begin[i] + bare.waits_for[sweep.order[i]];
  }
  sweep.predecessors.resize(bare.successors.size());
  std::vector<std::uint32_t> fill(sweep.predecessors_begin.begin(),
                                  sweep.predecessors_begin.end() - 1);
  for (std::uint32_t v = 0; v < waits_for.size(); ++v) {
    for (std::uint32_t e = bare.successors_begin[v]; e < bare.successors_begin[v + 1]; ++e) {
      sweep.predecessors[fill[position[bare.successors[e]]]++] = position[v];
    }
  }
  return sweep;
}

std::int64_t RunSweep(const BareSweep& sweep) {
  std::vector<std::int64_t> end(sweep.order.size());
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < end.size(); ++i) {
    std::int64_t start = 0;
    for (std::uint32_t e = sweep.predecessors_begin[i]; e < sweep.predecessors_begin[i + 1]; ++e) {
      start = std::max(start, end[sweep.predecessors[e]]);
    }
    end[i] = start + sweep.duration[i];
    longest = std::max(longest, end[i]);
  }
  return longest;
}

}  // namespace stepsim
