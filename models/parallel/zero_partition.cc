#include "models/parallel/zero_partition.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace stepsim {
namespace {

// DeepSpeed's nccl_start_alignment_factor: each part begins at a multiple of two elements.
constexpr std::int64_t kAlignment = 2;

}  // namespace

ZeroPartition::ZeroPartition(const Workload& workload, std::int64_t ranks, bool round_robin)
    : workload_(workload), ranks_(ranks), offset_of_(workload.parameters.size()) {
  const std::int64_t unit = kAlignment * ranks;
  const std::int64_t padded = (workload.parameter_count() + unit - 1) / unit * unit;
  elements_per_rank_ = padded / ranks;
  const auto count = static_cast<std::int64_t>(offset_of_.size());
  const std::int64_t stride = round_robin ? ranks : 1;
  std::int64_t offset = 0;
  for (std::int64_t first = 0; first < std::min(stride, count); ++first) {
    for (std::int64_t p = first; p < count; p += stride) {
      offset_of_[static_cast<std::size_t>(p)] = offset;
      offset += workload.parameters[static_cast<std::size_t>(p)].elements;
    }
  }
}

std::vector<std::int64_t> ZeroPartition::ElementsByOwner(
    std::span<const std::int32_t> parameters) const {
  std::map<std::int64_t, std::int64_t> owned;
  for (const std::int32_t p : parameters) {
    std::int64_t at = offset_of_[static_cast<std::size_t>(p)];
    const std::int64_t end = at + workload_.parameters[static_cast<std::size_t>(p)].elements;
    while (at < end) {
      const std::int64_t owner = at / elements_per_rank_;
      const std::int64_t next = std::min(end, (owner + 1) * elements_per_rank_);
      owned[owner] += next - at;
      at = next;
    }
  }
  std::vector<std::int64_t> elements;
  for (const auto& [owner, count] : owned) elements.push_back(count);
  return elements;
}

}  // namespace stepsim
