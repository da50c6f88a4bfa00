// Who owns which gradient? Stages 1 and 2 of ZeRO lay all tensors end to end and cut the result
// into one equal part per rank.
//
//   4 ranks, tensors a (6), b (10): parts of 4 (padded to 16)
//   a: rank 0 has 4, rank 1 has 2; b: rank 1 has 2, rank 2 has 4, rank 3 has 4
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/workload/workload.h"

namespace stepsim {

class ZeroPartition {
 public:
  // `round_robin`: the tensors of rank 0 first (0, n, 2n, ...), then those of rank 1, ...
  ZeroPartition(const Workload& workload, std::int64_t ranks, bool round_robin);

  std::int64_t elements_per_rank() const { return elements_per_rank_; }
  std::int64_t padded_elements() const { return elements_per_rank_ * ranks_; }

  // Elements that each rank owns of these tensors, in order of rank; ranks without any are left
  // out.
  std::vector<std::int64_t> ElementsByOwner(std::span<const std::int32_t> parameters) const;

 private:
  const Workload& workload_;
  std::int64_t ranks_;
  std::int64_t elements_per_rank_ = 0;
  std::vector<std::int64_t> offset_of_;  // parameter -> where it begins
};

}  // namespace stepsim
