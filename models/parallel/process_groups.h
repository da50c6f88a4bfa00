// Which ranks talk to each other? The process groups of a step, each made once, however many of the
// simulated ranks ask for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/topology/mesh.h"
#include "sim/graph/task_graph_builder.h"

namespace stepsim {

class ProcessGroups {
 public:
  // `copies` of each stage along the pipeline: two lie on ranks as far from its two ends.
  ProcessGroups(TaskGraphBuilder& graph, const Mesh& mesh, std::int64_t copies = 1)
      : graph_(graph), mesh_(mesh), copies_(copies) {}

  const Mesh& mesh() const { return mesh_; }

  // The group of these ranks by this name: same ranks under two names are two communicators.
  GroupId Of(std::vector<std::int32_t> ranks, const std::string& name,
             const std::string& description);

  // All ranks of the job by this name.
  GroupId World(const std::string& name, const std::string& description);

  // Ranks that hold the same parameters as `rank` and sum their gradients: data and context
  // parallel ones, of both copies.
  GroupId Gradients(std::int64_t rank);
  // The same for experts that are dealt out.
  GroupId ExpertGradients(std::int64_t rank);

  // Of the ranks of Gradients(rank) in their order: copies of `size` with `stride` between the
  // members of one. All of them give Gradients(rank). REQUIRES: size x stride divides them.
  GroupId Part(std::int64_t rank, std::int64_t size, std::int64_t stride, const std::string& name,
               const std::string& description);

  // The same of the ranks that hold the same experts, which sum their gradients.
  GroupId Experts(std::int64_t rank);
  GroupId PartOfExperts(std::int64_t rank, std::int64_t size, std::int64_t stride,
                        const std::string& name, const std::string& description);

 private:
  std::vector<std::int32_t> Holders(std::int64_t rank) const;
  std::vector<std::int32_t> ExpertHolders(std::int64_t rank) const;
  // Of `rank` and of the rank with the other copy, ascending.
  template <class Peers>
  std::vector<std::int32_t> OfCopies(std::int64_t rank, Peers peers) const;
  static std::vector<std::int32_t> Cut(const std::vector<std::int32_t>& all, std::int64_t rank,
                                       std::int64_t size, std::int64_t stride);

  TaskGraphBuilder& graph_;
  const Mesh& mesh_;
  const std::int64_t copies_;
  std::map<std::pair<std::string, std::vector<std::int32_t>>, GroupId> known_;
  std::map<std::string, GroupId> worlds_;
};

}  // namespace stepsim
