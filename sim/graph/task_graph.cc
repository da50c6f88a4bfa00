#include "sim/graph/task_graph.h"

namespace stepsim {

std::span<const StreamId> TaskGraph::streams(TaskId t) const {
  const auto value = static_cast<std::uint32_t>(tasks_[t].stream);
  if ((value & kMultiStreamBit) == 0) return {&tasks_[t].stream, 1};
  const std::uint32_t entry = value & ~kMultiStreamBit;
  const std::uint32_t begin = multi_stream_begin_[entry];
  return {multi_streams_.data() + begin, multi_stream_begin_[entry + 1] - begin};
}

TaskGraph TaskGraph::Without(TaskId task) const {
  TaskGraph copy = *this;
  const WorkId own = copy.works_.push_back(work(task));
  copy.kinds_.push_back(kind(task));
  const RendezvousId r = rendezvous(task);
  const std::span<const TaskId> all =
      r == kNoId<RendezvousId> ? std::span<const TaskId>(&task, 1) : members(r);
  for (const TaskId member : all) copy.tasks_[member].work = own;
  return copy;
}

Bytes TaskGraph::resident_memory(RankId r, std::size_t category) const {
  if (Index(r) >= resident_memory_.size() || category >= resident_memory_[Index(r)].size()) {
    return Bytes{};
  }
  return resident_memory_[Index(r)][category];
}

}  // namespace stepsim
