// Which rank is which? The ranks of a job as a mesh of tensor, context, data and pipeline parallel
// axes. The first axis of the order has stride 1: its ranks are neighbours and share a node.
//
//   Mesh mesh(job.plan, job.gpus());               // order tp-cp-dp-pp, tp 8, pp 4, 64 GPUs
//   mesh.Peers(9, {MeshAxis::kTensor});            // {8, 9, ..., 15}
//   mesh.Peers(9, {MeshAxis::kData});              // {1, 9}
//
// Experts: the ranks of one stage are laid out anew, as expert-tensor x expert x expert-data
// parallel, the first innermost (Megatron-LM's second mesh).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "models/spec/job.h"

namespace stepsim {

enum class MeshAxis : std::uint8_t { kTensor, kContext, kData, kPipeline };
inline constexpr std::size_t kMeshAxes = 4;

// Which ranks share the experts?
enum class ExpertAxis : std::uint8_t { kTensor, kExpert, kData };

// The axes of an order like "tp-cp-dp-pp", innermost first; empty when it is not one.
std::vector<MeshAxis> ParseMeshOrder(std::string_view order);

class Mesh {
 public:
  // REQUIRES: a valid order; the degrees divide `gpus`; those of experts divide a stage's ranks.
  Mesh(const ParallelPlan& plan, std::int64_t gpus);

  std::int64_t gpus() const { return gpus_; }
  std::int64_t Size(MeshAxis axis) const { return sizes_[Index(axis)]; }
  // Where the rank is along the axis: 0 <= place < Size(axis).
  std::int64_t PlaceOf(std::int64_t rank, MeshAxis axis) const {
    return rank / strides_[Index(axis)] % Size(axis);
  }
  // The rank at another place of one axis.
  std::int64_t Moved(std::int64_t rank, MeshAxis axis, std::int64_t place) const {
    return rank + (place - PlaceOf(rank, axis)) * strides_[Index(axis)];
  }
  // The ranks that differ from `rank` along these axes only, itself included, ascending.
  std::vector<std::int32_t> Peers(std::int64_t rank, std::initializer_list<MeshAxis> axes) const;
  std::vector<std::int32_t> ExpertPeers(std::int64_t rank, ExpertAxis axis) const;
  // Ranks that hold all experts of a layer between them, once: its expert-tensor and expert peers.
  std::vector<std::int32_t> ExpertRanks(std::int64_t rank) const;

  // Experts of a layer: ranks among which they are dealt out, and that share each.
  std::int64_t ExpertSize(ExpertAxis axis) const;

 private:
  static std::size_t Index(MeshAxis axis) { return static_cast<std::size_t>(axis); }

  std::int64_t gpus_;
  std::int64_t expert_tensor_, expert_;
  std::array<std::int64_t, kMeshAxes> sizes_{};
  std::array<std::int64_t, kMeshAxes> strides_{};
};

}  // namespace stepsim
