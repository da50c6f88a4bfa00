#include "models/topology/mesh.h"

#include <algorithm>

#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr std::array<std::string_view, kMeshAxes> kNames = {"tp", "cp", "dp", "pp"};

}  // namespace

std::vector<MeshAxis> ParseMeshOrder(std::string_view order) {
  std::vector<MeshAxis> axes;
  while (!order.empty()) {
    const std::string_view name = order.substr(0, order.find('-'));
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) return {};
    const auto axis = static_cast<MeshAxis>(found - kNames.begin());
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return {};
    axes.push_back(axis);
    if (name.size() + 1 == order.size()) return {};  // ends with a dash
    order.remove_prefix(std::min(order.size(), name.size() + 1));
  }
  if (axes.size() != kMeshAxes) return {};
  return axes;
}

Mesh::Mesh(const ParallelPlan& plan, std::int64_t gpus)
    : gpus_(gpus),
      expert_tensor_(plan.expert.tensor_parallel > 0 ? plan.expert.tensor_parallel
                                                     : plan.tensor_parallel),
      expert_(plan.expert_parallel),
      sizes_{plan.tensor_parallel, plan.context_parallel, gpus / plan.model_ranks(),
             plan.pipeline_parallel} {
  const std::vector<MeshAxis> order = ParseMeshOrder(plan.mesh_order);
  SIM_CHECK(order.size() == kMeshAxes, "the order of a mesh names every axis once");
  std::int64_t stride = 1;
  for (const MeshAxis axis : order) {
    strides_[Index(axis)] = stride;
    stride *= Size(axis);
  }
  SIM_CHECK(stride == gpus, "the degrees of a mesh multiply to its ranks");
}

std::vector<std::int32_t> Mesh::Peers(std::int64_t rank,
                                      std::initializer_list<MeshAxis> axes) const {
  std::vector<std::int32_t> peers = {static_cast<std::int32_t>(rank)};
  for (const MeshAxis axis : axes) {
    std::vector<std::int32_t> more;
    more.reserve(peers.size() * static_cast<std::size_t>(Size(axis)));
    for (std::int64_t place = 0; place < Size(axis); ++place) {
      for (const std::int32_t peer : peers) {
        more.push_back(static_cast<std::int32_t>(Moved(peer, axis, place)));
      }
    }
    peers = std::move(more);
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

std::int64_t Mesh::ExpertSize(ExpertAxis axis) const {
  switch (axis) {
    case ExpertAxis::kTensor:
      return expert_tensor_;
    case ExpertAxis::kExpert:
      return expert_;
    case ExpertAxis::kData:
      break;
  }
  return gpus_ / Size(MeshAxis::kPipeline) / (expert_tensor_ * expert_);
}

std::vector<std::int32_t> Mesh::ExpertPeers(std::int64_t rank, ExpertAxis axis) const {
  const std::vector<std::int32_t> stage =
      Peers(rank, {MeshAxis::kTensor, MeshAxis::kContext, MeshAxis::kData});
  const auto count = static_cast<std::int64_t>(stage.size());
  SIM_CHECK(count % (expert_tensor_ * expert_) == 0, "the experts' degrees divide a stage");
  const std::int64_t place =
      std::lower_bound(stage.begin(), stage.end(), static_cast<std::int32_t>(rank)) - stage.begin();
  const std::int64_t stride = axis == ExpertAxis::kTensor   ? 1
                              : axis == ExpertAxis::kExpert ? expert_tensor_
                                                            : expert_tensor_ * expert_;
  const std::int64_t size = ExpertSize(axis);
  const std::int64_t first = place / (stride * size) * (stride * size) + place % stride;
  std::vector<std::int32_t> peers;
  for (std::int64_t i = 0; i < size; ++i) {
    peers.push_back(stage[static_cast<std::size_t>(first + i * stride)]);
  }
  return peers;
}

std::vector<std::int32_t> Mesh::ExpertRanks(std::int64_t rank) const {
  std::vector<std::int32_t> ranks;
  for (const std::int32_t peer : ExpertPeers(rank, ExpertAxis::kExpert)) {
    const std::vector<std::int32_t> sharing = ExpertPeers(peer, ExpertAxis::kTensor);
    ranks.insert(ranks.end(), sharing.begin(), sharing.end());
  }
  return ranks;
}

}  // namespace stepsim
