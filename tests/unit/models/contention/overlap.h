// How do tests put kernels beside each other? Tasks on the streams of one rank that say how long
// they take alone and what they occupy, run by the engine with the contention of a GPU.
//
//   Overlap o(hardware);
//   const TaskId gather = o.Add("nccl", 1.30_ms, Ring(hardware, 24));
//   const TaskId gemm = o.Add("compute", 1.66_ms, Gemm(2048));
//   o.Run();
//   o.Took(gemm), o.Makespan()
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/contention/contention.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim::testing {

class Overlap {
 public:
  explicit Overlap(HardwareSpec hardware) : hardware_(std::move(hardware)) {
    rank_ = builder_.AddRank({});
  }

  TaskId Add(const std::string& stream, double seconds, const Occupancy& occupancy,
             const std::vector<TaskId>& after = {}) {
    const auto tag = static_cast<std::int64_t>(costs_.size());  // each task is a work of its own
    const WorkId work = builder_.AddWork(OpaqueWork{occupancy.kind, tag});
    costs_.push_back({DurationFromSeconds(seconds)});
    occupancy_.push_back(occupancy);
    const bool is_transfer = occupancy.kind == TaskKind::kTransfer;
    const LabelId label = builder_.AddLabel(
        {.name = stream, .site = is_transfer ? Site::kParameterGather : Site::kNone});
    const TaskId task = builder_.AddTask(work, label, StreamOf(stream));
    for (const TaskId before : after) builder_.AddDependency(before, task);
    return task;
  }

  const Timeline& Run(ContentionSettings settings = {}) {
    graph_ = std::move(builder_).Build();
    Contention contention(occupancy_, hardware_, settings);
    return timeline_ = Simulate(graph_, costs_, &contention);
  }

  const TaskGraph& graph() const { return graph_; }
  const TaskCosts& costs() const { return costs_; }
  double Took(TaskId task) const { return ToSeconds(timeline_.end[task] - timeline_.start[task]); }
  double SlowDown(TaskId task) const {
    return Took(task) / ToSeconds(costs_[graph_.work_id(task)].isolated);
  }
  double Makespan() const { return ToSeconds(timeline_.makespan); }

 private:
  StreamId StreamOf(const std::string& name) {
    for (const auto& [known, stream] : streams_) {
      if (known == name) return stream;
    }
    return streams_.emplace_back(name, builder_.AddStream(rank_, name)).second;
  }

  HardwareSpec hardware_;
  TaskGraphBuilder builder_;
  RankId rank_{};
  std::vector<std::pair<std::string, StreamId>> streams_;
  TaskCosts costs_;
  IdVector<WorkId, Occupancy> occupancy_;
  TaskGraph graph_;
  Timeline timeline_;
};

// A large collective inside a node at the rate that the profile reaches: bytes through the HBM are
// `hbm_factor` x bus bytes (models/README.md, "What a collective occupies").
inline Occupancy Collective(const HardwareSpec& hardware, double sms, double hbm_factor = 3) {
  const LinkSpec& link = hardware.intra_node;
  return {.kind = TaskKind::kTransfer,
          .sms = sms,
          .hbm = hbm_factor * link.bandwidth.value * link.efficiency,
          .intra = 1};
}

inline Occupancy Kernel(ComputeClass compute_class, double tiles = 0, double hbm = 0) {
  return {.kind = TaskKind::kCompute, .compute_class = compute_class, .tiles = tiles, .hbm = hbm};
}

}  // namespace stepsim::testing
