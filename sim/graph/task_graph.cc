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
  IdVector<TaskId, char> marked(task_count(), 0);
  marked[task] = 1;
  const RendezvousId r = rendezvous(task);
  if (r != kNoId<RendezvousId>) {
    for (const TaskId member : members(r)) marked[member] = 1;
  }
  return Without(marked, /*meets_peers=*/true);
}

TaskGraph TaskGraph::Without(const IdVector<TaskId, char>& marked, bool meets_peers) const {
  TaskGraph copy = *this;
  WorkId own = kNoId<WorkId>;
  for (const TaskId t : AllIds<TaskId>(task_count())) {
    if (marked[t] == 0) continue;
    if (own == kNoId<WorkId>) {
      own = copy.works_.push_back(work(t));
      copy.kinds_.push_back(kind(t));
    }
    copy.tasks_[t].work = own;
    if (!meets_peers) copy.tasks_[t].rendezvous = kNoId<RendezvousId>;
  }
  return copy;
}

Bytes TaskGraph::resident_memory(RankId r, std::size_t category) const {
  if (Index(r) >= resident_memory_.size() || category >= resident_memory_[Index(r)].size()) {
    return Bytes{};
  }
  return resident_memory_[Index(r)][category];
}

}  // namespace stepsim
