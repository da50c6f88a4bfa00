// How does a graph come to be? Ranks, streams, works, then tasks in host (program) order.
//
//   TaskGraphBuilder b;
//   const RankId r = b.AddRank({.global_rank = 0});
//   const StreamId comp = b.AddStream(r, "compute");
//   const TaskId f = b.AddTask(b.AddWork(ComputeWork{...}), b.AddLabel({.name = "fwd"}), comp);
//   b.AddDependency(f, next);
//   const TaskGraph graph = std::move(b).Build();
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/task_graph.h"

namespace stepsim {

class TaskGraphBuilder {
 public:
  // Optional: avoids growth when the size is known.
  void Reserve(std::size_t tasks, std::size_t dependencies);

  RankId AddRank(RankInfo info);
  StreamId AddStream(RankId rank, std::string name, bool is_queue = false);
  GroupId AddGroup(ProcessGroup group);
  const ProcessGroup& group(GroupId g) const { return graph_.group(g); }
  WorkId AddWork(const Work& work);      // equal works get equal ids
  LabelId AddLabel(const Label& label);  // equal labels get equal ids

  // The position of the tasks added from now on.
  void SetPosition(Position position);

  // Appends to the stream(s). REQUIRES: streams not empty, all of one rank, no stream twice.
  TaskId AddTask(WorkId work, LabelId label, StreamId stream);
  TaskId AddTask(WorkId work, LabelId label, std::span<const StreamId> streams);

  // `after` starts no earlier than the end of `before`. Either may have been added first.
  void AddDependency(TaskId before, TaskId after);

  // REQUIRES: members of one rendezvous have equal works and lie on different ranks; a task joins
  // at most one. Both are checked by Build().
  RendezvousId AddRendezvous();
  void Join(RendezvousId rendezvous, TaskId member);

  // Memory by category ("parameters", "activations"); equal names share one category.
  void AddMemoryEvent(TaskId task, bool at_end, const std::string& category, Bytes delta);
  void AddResidentMemory(RankId rank, const std::string& category, Bytes bytes);

  std::size_t task_count() const { return graph_.task_count(); }
  // The task added last to the stream, kNoId when there is none: what a CUDA event recorded now
  // would stand for.
  TaskId last_on(StreamId stream) const { return last_on_stream_[stream]; }

  TaskGraph Build() &&;

 private:
  struct LabelHash {
    std::size_t operator()(const Label& label) const {
      return std::hash<std::string>()(label.name) * 31 + static_cast<std::size_t>(label.site) * 7 +
             static_cast<std::size_t>(label.phase);
    }
  };
  struct Dependency {
    TaskId before, after;
  };
  std::uint8_t CategoryIndex(const std::string& category);
  void CheckRendezvous() const;
  void BuildEdges();
  void BuildRendezvous();

  TaskGraph graph_;
  std::vector<Dependency> dependencies_;
  IdVector<StreamId, TaskId> last_on_stream_;
  std::vector<std::pair<RendezvousId, TaskId>> joins_;
  std::uint32_t rendezvous_count_ = 0;
  std::map<Work, WorkId> work_ids_;
  std::unordered_map<Label, LabelId, LabelHash> label_ids_;
  std::map<Position, std::uint32_t> position_ids_;
  std::uint32_t position_ = 0;  // index of the current one
};

}  // namespace stepsim
