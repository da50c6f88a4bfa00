#include "models/parallel/process_groups.h"

#include <utility>

#include "sim/base/check.h"

namespace stepsim {
namespace {

ProcessGroup MakeGroup(std::string name, std::string description, std::int64_t first,
                       std::int64_t size, std::int64_t stride) {
  ProcessGroup group{std::move(name), std::move(description), {}};
  group.ranks.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    group.ranks.push_back(static_cast<std::int32_t>(first + i * stride));
  }
  return group;
}

}  // namespace

ProcessGroups::ProcessGroups(TaskGraphBuilder& graph, std::int64_t ranks)
    : graph_(graph),
      ranks_(ranks),
      all_(graph.AddGroup(MakeGroup("dp", "data parallel", 0, ranks, 1))) {}

GroupId ProcessGroups::Of(std::int64_t rank, std::int64_t size, std::int64_t stride,
                          const std::string& name, const std::string& description) {
  SIM_CHECK(ranks_ % (size * stride) == 0, "a process group does not divide the ranks");
  if (size == ranks_) return all_;
  const std::int64_t span = size * stride;
  const std::int64_t first = rank / span * span + rank % stride;
  const auto [known, is_new] = known_.try_emplace({first, size, stride}, GroupId{});
  if (is_new) known->second = graph_.AddGroup(MakeGroup(name, description, first, size, stride));
  return known->second;
}

}  // namespace stepsim
