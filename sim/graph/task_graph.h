// What must happen, and after what? An immutable graph of tasks on streams, without durations.
//
//   rank 0  comp  | F0 | F1 | B1 | B0 |            a stream runs its tasks one after another, in
//           nccl  |              | r1 | r0 |       the order in which they were added (CUDA's FIFO)
//
// * A task occupies one or more streams of one rank. It starts when all its dependencies are done
//   and it heads every stream it occupies. (NCCL orders the launches of one communicator: give such
//   a task its CUDA stream and a stream that stands for the communicator.)
// * A collective across simulated ranks is one task per rank, joined by a rendezvous: each member
// is
//   resident from its own start; all of them transfer from the moment the last one is resident and
//   end together. Members of one rendezvous share one Work.
// * Edges are dependencies (data, events) and stream order; both are "after the end of". Tasks,
//   streams and ids are compact arrays: about 25 bytes a task, built once by TaskGraphBuilder.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/large_array.h"
#include "sim/graph/site.h"
#include "sim/graph/work.h"

namespace stepsim {

struct Label {
  std::string name;  // "layer3.mlp.fc1.wgrad"
  Site site = Site::kNone;
  Phase phase = Phase::kOther;
  bool operator==(const Label&) const = default;
};

// Where in the simulation a task is. Apart from the label: an operator keeps its name through
// thousands of micro-steps.
struct Position {
  std::int32_t microstep = 0;
  std::int32_t step = 0;  // of consecutive ones
  auto operator<=>(const Position&) const = default;
};

struct StreamInfo {
  RankId rank{};
  std::string name;       // "compute", "nccl dp", "host"
  bool is_queue = false;  // a serial queue that is no CUDA stream of its own (a communicator)
};

struct RankInfo {
  std::int32_t global_rank = 0;  // the rank it is
  std::int32_t stands_for = 1;   // how many identical ranks it stands for (folding)
  std::string name = {};         // its place: "pp 3"; empty: it has none of its own
};

struct ProcessGroup {
  std::string name;                 // "dp"
  std::string description;          // "data parallel"
  std::vector<std::int32_t> ranks;  // global ranks, ascending
};

// A successor with the kind of constraint, in 32 bits.
class Edge {
 public:
  Edge() = default;
  Edge(TaskId to, bool is_stream_order)
      : bits_(static_cast<std::uint32_t>(to) | (is_stream_order ? kOrderBit : 0u)) {}
  TaskId to() const { return TaskId{bits_ & ~kOrderBit}; }
  bool is_stream_order() const { return (bits_ & kOrderBit) != 0; }

 private:
  static constexpr std::uint32_t kOrderBit = 1u << 31;
  std::uint32_t bits_ = 0;
};

// When a task frees or takes memory (bytes may be negative) on its rank.
struct MemoryEvent {
  TaskId task{};
  bool at_end = false;        // at the task's end, else at its start
  std::uint8_t category = 0;  // index into TaskGraph::memory_categories()
  Bytes delta;
};

class TaskGraph {
 public:
  std::size_t task_count() const { return tasks_.size(); }
  std::size_t stream_count() const { return streams_.size(); }
  std::size_t rank_count() const { return ranks_.size(); }
  std::size_t work_count() const { return works_.size(); }
  std::size_t rendezvous_count() const {
    return members_begin_.empty() ? 0 : members_begin_.size() - 1;
  }

  WorkId work_id(TaskId t) const { return tasks_[t].work; }
  const Work& work(TaskId t) const { return works_[work_id(t)]; }
  const Work& work(WorkId w) const { return works_[w]; }
  TaskKind kind(TaskId t) const { return kinds_[work_id(t)]; }
  const Label& label(TaskId t) const { return labels_[label_id(t)]; }
  LabelId label_id(TaskId t) const { return tasks_[t].label; }
  Position position(TaskId t) const {
    return positions_of_.empty() ? Position{} : positions_[positions_of_[t]];
  }
  RankId rank(TaskId t) const { return streams_[streams(t).front()].rank; }
  std::span<const StreamId> streams(TaskId t) const;

  const StreamInfo& stream(StreamId s) const { return streams_[s]; }
  const RankInfo& rank_info(RankId r) const { return ranks_[r]; }
  const ProcessGroup& group(GroupId g) const { return groups_[g]; }
  std::size_t group_count() const { return groups_.size(); }

  // Tasks that wait for the end of t: those behind it on its streams, then its dependents in the
  // order in which the dependencies were added.
  std::span<const Edge> successors(TaskId t) const {
    const std::uint32_t begin = successors_begin_[Index(t)];
    return {edges_.data() + begin, successors_begin_[Index(t) + 1] - begin};
  }
  std::size_t edge_count() const { return edges_.size(); }

  // kNoId when the task meets nobody.
  RendezvousId rendezvous(TaskId t) const { return tasks_[t].rendezvous; }
  std::span<const TaskId> members(RendezvousId r) const {
    const std::uint32_t begin = members_begin_[Index(r)];
    return {members_.data() + begin, members_begin_[Index(r) + 1] - begin};
  }

  std::span<const MemoryEvent> memory_events() const { return memory_events_; }
  const std::vector<std::string>& memory_categories() const { return memory_categories_; }
  // Bytes that are there for the whole step, per rank and category (parameters, optimizer states).
  Bytes resident_memory(RankId r, std::size_t category) const;

  // The same graph, where the task (with all members of its rendezvous) does a work of its own, the
  // last id: "what if it took no time?"
  TaskGraph Without(TaskId task) const;
  // The same for all tasks that are marked, which share the last id. `meets_peers` false: they wait
  // for nobody on other ranks either, "what if every rank ran by itself?".
  // REQUIRES: marked.size() == task_count(); the marked tasks are of one kind, and of a rendezvous
  // all members are marked or none.
  TaskGraph Without(const IdVector<TaskId, char>& marked, bool meets_peers) const;

 private:
  friend class TaskGraphBuilder;
  static constexpr std::uint32_t kMultiStreamBit = 1u << 31;

  struct Task {
    WorkId work{};
    LabelId label{};
    StreamId stream{};  // kMultiStreamBit: index into multi_stream_begin_
    RendezvousId rendezvous = kNoId<RendezvousId>;
  };
  IdVector<TaskId, Task> tasks_;
  IdVector<TaskId, std::uint32_t> positions_of_;  // into positions_; empty: all are at {0, 0}
  std::vector<Position> positions_;
  std::vector<std::uint32_t> multi_stream_begin_;
  std::vector<StreamId> multi_streams_;
  LargeArray<std::uint32_t> successors_begin_;
  LargeArray<Edge> edges_;
  std::vector<std::uint32_t> members_begin_;
  std::vector<TaskId> members_;
  IdVector<WorkId, Work> works_;
  IdVector<WorkId, TaskKind> kinds_;
  IdVector<LabelId, Label> labels_;
  IdVector<StreamId, StreamInfo> streams_;
  IdVector<RankId, RankInfo> ranks_;
  IdVector<GroupId, ProcessGroup> groups_;
  std::vector<MemoryEvent> memory_events_;
  std::vector<std::string> memory_categories_;
  std::vector<std::vector<Bytes>> resident_memory_;  // [rank][category]
};

}  // namespace stepsim
