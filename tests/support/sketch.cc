#include "tests/support/sketch.h"

#include <utility>
#include <variant>

namespace stepsim {

Work Lasting(TaskKind kind, Duration duration) { return OpaqueWork{kind, duration.count()}; }

TaskCosts CostsFromTags(const TaskGraph& graph) {
  TaskCosts costs(graph.work_count());
  for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
    costs[w].isolated = Duration(std::get<OpaqueWork>(graph.work(w)).tag);
  }
  return costs;
}

IdVector<WorkId, Duration> DurationsFromTags(const TaskGraph& graph) {
  IdVector<WorkId, Duration> durations(graph.work_count());
  for (const WorkId w : AllIds<WorkId>(graph.work_count())) {
    durations[w] = Duration(std::get<OpaqueWork>(graph.work(w)).tag);
  }
  return durations;
}

StreamId GraphSketch::Stream(int rank, const std::string& name, bool is_queue) {
  for (; ranks_ <= rank; ++ranks_) builder_.AddRank({.global_rank = ranks_, .stands_for = 1});
  const auto [position, is_new] = streams_.try_emplace({rank, name}, StreamId{});
  if (is_new) {
    position->second = builder_.AddStream(RankId{static_cast<std::uint32_t>(rank)}, name, is_queue);
  }
  return position->second;
}

TaskId GraphSketch::Compute(StreamId stream, Duration d, const std::string& name,
                            const Tasks& after) {
  return Add(TaskKind::kCompute, {&stream, 1}, d, {.name = name}, after);
}

TaskId GraphSketch::Transfer(StreamId stream, Duration d, Site site, const std::string& name,
                             const Tasks& after) {
  return Add(TaskKind::kTransfer, {&stream, 1}, d, {.name = name, .site = site}, after);
}

TaskId GraphSketch::Host(StreamId stream, Duration d, const std::string& name, const Tasks& after) {
  return Add(TaskKind::kHost, {&stream, 1}, d, {.name = name}, after);
}

TaskId GraphSketch::Add(TaskKind kind, std::span<const StreamId> streams, Duration d,
                        const Label& label, const Tasks& after) {
  const TaskId task =
      builder_.AddTask(builder_.AddWork(Lasting(kind, d)), builder_.AddLabel(label), streams);
  for (const TaskId before : after) builder_.AddDependency(before, task);
  return task;
}

void GraphSketch::Meet(const Tasks& members) {
  const RendezvousId r = builder_.AddRendezvous();
  for (const TaskId member : members) builder_.Join(r, member);
}

Sketched GraphSketch::Build() {
  TaskGraph graph = std::move(builder_).Build();
  TaskCosts costs = CostsFromTags(graph);
  return {std::move(graph), std::move(costs)};
}

}  // namespace stepsim
