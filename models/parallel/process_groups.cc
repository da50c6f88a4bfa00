#include "models/parallel/process_groups.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/check.h"

namespace stepsim {

GroupId ProcessGroups::Of(std::vector<std::int32_t> ranks, const std::string& name,
                          const std::string& description) {
  const auto [known, is_new] = known_.try_emplace({name, std::move(ranks)}, GroupId{});
  if (is_new) known->second = graph_.AddGroup({name, description, known->first.second});
  return known->second;
}

GroupId ProcessGroups::World(const std::string& name, const std::string& description) {
  const auto [known, is_new] = worlds_.try_emplace(name, GroupId{});
  if (!is_new) return known->second;
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(mesh_.gpus()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return known->second = Of(std::move(ranks), name, description);
}

template <class Peers>
std::vector<std::int32_t> ProcessGroups::OfCopies(std::int64_t rank, Peers peers) const {
  std::vector<std::int32_t> ranks = peers(rank);
  if (copies_ == 1) return ranks;
  const std::int64_t place = mesh_.PlaceOf(rank, MeshAxis::kPipeline);
  const std::int64_t last = mesh_.Size(MeshAxis::kPipeline) - 1;
  const auto others = peers(mesh_.Moved(rank, MeshAxis::kPipeline, last - place));
  ranks.insert(ranks.end(), others.begin(), others.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<std::int32_t> ProcessGroups::Holders(std::int64_t rank) const {
  return OfCopies(rank, [&](std::int64_t r) {
    return mesh_.Peers(r, {MeshAxis::kContext, MeshAxis::kData});
  });
}

GroupId ProcessGroups::Gradients(std::int64_t rank) {
  const bool has_context = mesh_.Size(MeshAxis::kContext) > 1;
  return Of(Holders(rank), has_context ? "dp-cp" : "dp",
            has_context ? "data and context parallel" : "data parallel");
}

std::vector<std::int32_t> ProcessGroups::ExpertHolders(std::int64_t rank) const {
  return OfCopies(rank, [&](std::int64_t r) { return mesh_.ExpertPeers(r, ExpertAxis::kData); });
}

GroupId ProcessGroups::ExpertGradients(std::int64_t rank) {
  return Of(ExpertHolders(rank), "edp", "expert data parallel");
}

GroupId ProcessGroups::Part(std::int64_t rank, std::int64_t size, std::int64_t stride,
                            const std::string& name, const std::string& description) {
  const std::vector<std::int32_t> all = Holders(rank);
  if (size == static_cast<std::int64_t>(all.size())) return Gradients(rank);
  return Of(Cut(all, rank, size, stride), name, description);
}

GroupId ProcessGroups::PartOfExperts(std::int64_t rank, std::int64_t size, std::int64_t stride,
                                     const std::string& name, const std::string& description) {
  const std::vector<std::int32_t> all = ExpertHolders(rank);
  if (size == static_cast<std::int64_t>(all.size())) return ExpertGradients(rank);
  return Of(Cut(all, rank, size, stride), name, description);
}

std::vector<std::int32_t> ProcessGroups::Cut(const std::vector<std::int32_t>& all,
                                             std::int64_t rank, std::int64_t size,
                                             std::int64_t stride) {
  const std::int64_t span = size * stride;
  SIM_CHECK(static_cast<std::int64_t>(all.size()) % span == 0,
            "a process group does not divide the ranks");
  const std::int64_t place =
      std::lower_bound(all.begin(), all.end(), static_cast<std::int32_t>(rank)) - all.begin();
  const std::int64_t first = place / span * span + place % stride;
  std::vector<std::int32_t> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    ranks.push_back(all[static_cast<std::size_t>(first + i * stride)]);
  }
  return ranks;
}

}  // namespace stepsim
