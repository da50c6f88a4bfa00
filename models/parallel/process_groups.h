// Which ranks talk to each other? The process groups of a step, each made once, however many of the
// simulated ranks ask for it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "sim/graph/task_graph_builder.h"

namespace stepsim {

class ProcessGroups {
 public:
  ProcessGroups(TaskGraphBuilder& graph, std::int64_t ranks);

  std::int64_t ranks() const { return ranks_; }
  GroupId all() const { return all_; }

  // The group of `rank` when ranks are laid out as copies of `size` with `stride` between the
  // members of one: {first, first + stride, ...}. All ranks give all().
  // REQUIRES: stride x size divides ranks.
  GroupId Of(std::int64_t rank, std::int64_t size, std::int64_t stride, const std::string& name,
             const std::string& description);

 private:
  TaskGraphBuilder& graph_;
  std::int64_t ranks_;
  GroupId all_;
  // By first member, size and stride.
  std::map<std::array<std::int64_t, 3>, GroupId> known_;
};

}  // namespace stepsim
