// How do tests write graphs by hand? A thin layer over TaskGraphBuilder where each task says how
// long it takes: the duration is the tag of its work, so that the costs follow from the graph.
//
//   GraphSketch s;
//   const StreamId comp = s.Stream(0, "compute"), nccl = s.Stream(0, "nccl");
//   const TaskId b = s.Compute(comp, 10us, "bwd");
//   const TaskId r = s.Transfer(nccl, 20us, Site::kGradientReduce, "r", {b});
//   const Sketched built = s.Build();
//   const Timeline timeline = Simulate(built.graph, built.costs);
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/graph/task_graph.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {

// A work that lasts `duration` alone: the tag holds the picoseconds.
Work Lasting(TaskKind kind, Duration duration);

// REQUIRES: every work of the graph comes from Lasting().
TaskCosts CostsFromTags(const TaskGraph& graph);
IdVector<WorkId, Duration> DurationsFromTags(const TaskGraph& graph);

struct Sketched {
  TaskGraph graph;
  TaskCosts costs;
};

class GraphSketch {
 public:
  // The stream of that name on simulated rank `rank`; ranks and streams appear on first use.
  StreamId Stream(int rank, const std::string& name, bool is_queue = false);

  using Tasks = std::vector<TaskId>;
  TaskId Compute(StreamId stream, Duration d, const std::string& name = "k",
                 const Tasks& after = {});
  TaskId Transfer(StreamId stream, Duration d, Site site, const std::string& name = "t",
                  const Tasks& after = {});
  TaskId Host(StreamId stream, Duration d, const std::string& name = "h", const Tasks& after = {});
  TaskId Add(TaskKind kind, std::span<const StreamId> streams, Duration d, const Label& label,
             const Tasks& after = {});
  void Meet(const Tasks& members);

  TaskGraphBuilder& builder() { return builder_; }
  Sketched Build();

 private:
  TaskGraphBuilder builder_;
  int ranks_ = 0;
  std::map<std::pair<int, std::string>, StreamId> streams_;
};

}  // namespace stepsim
