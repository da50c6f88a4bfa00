#include "models/cost/nccl_levels.h"

#include <algorithm>
#include <cmath>

namespace stepsim {
namespace {

// Groups of both levels have their siblings on the node: all its ranks work at the same time.
Placement InNode(const Placement& whole) {
  return {whole.ranks_per_node, 1, whole.ranks_per_node, whole.job_gpus_per_node, whole.first_node,
          whole.first_node};
}
Placement AcrossNodes(const Placement& whole) {
  return {
      whole.nodes,      whole.nodes,    1, std::max(whole.job_gpus_per_node, whole.ranks_per_node),
      whole.first_node, whole.last_node};
}

}  // namespace

std::vector<CollectiveRequest> LevelsOf(std::string_view algorithm,
                                        const CollectiveRequest& request) {
  const Placement& whole = request.placement;
  const Bytes all = request.bytes;
  const Bytes shard{static_cast<std::int64_t>(
      std::ceil(ToDouble(all) / static_cast<double>(whole.ranks_per_node)))};
  std::vector<CollectiveRequest> parts;
  const auto add = [&](CollectiveOp op, Bytes bytes, const Placement& placement) {
    if (placement.ranks > 1) parts.push_back({op, bytes, request.dtype, placement});
  };
  if (algorithm == "hierarchical" && request.op == CollectiveOp::kAllReduce) {
    add(CollectiveOp::kReduceScatter, all, InNode(whole));
    add(CollectiveOp::kAllReduce, shard, AcrossNodes(whole));
    add(CollectiveOp::kAllGather, all, InNode(whole));
  } else if (algorithm == "two_level" && request.op == CollectiveOp::kAllGather) {
    add(CollectiveOp::kAllGather, shard, AcrossNodes(whole));
    add(CollectiveOp::kAllGather, all, InNode(whole));
  } else if (algorithm == "two_level" && request.op == CollectiveOp::kReduceScatter) {
    add(CollectiveOp::kReduceScatter, all, InNode(whole));
    add(CollectiveOp::kReduceScatter, shard, AcrossNodes(whole));
  }
  return parts;
}

std::string_view LevelsRefusal(std::string_view algorithm) {
  return algorithm == "hierarchical" ? "it does all_reduce only"
                                     : "it does all_gather and reduce_scatter";
}

CollectiveCost SumOfLevels(std::string_view algorithm, const std::vector<CollectiveCost>& parts) {
  CollectiveCost sum;
  sum.algorithm = algorithm;
  double longest = 0;
  for (const CollectiveCost& part : parts) {
    sum.seconds += part.seconds;
    sum.latency_seconds += part.latency_seconds;
    sum.nccl_seconds += part.nccl_seconds;
    sum.hbm_bytes += part.hbm_bytes;
    sum.channels = std::max(sum.channels, part.channels);
    sum.sms = std::max(sum.sms, part.sms);
    // Shares as the mean over time.
    sum.intra_share += part.intra_share * part.seconds;
    sum.network_share += part.network_share * part.seconds;
    sum.residual = std::max(sum.residual, part.residual);
    sum.is_extrapolated = sum.is_extrapolated || part.is_extrapolated;
    if (part.seconds < longest) continue;
    longest = part.seconds;
    sum.protocol = part.protocol;  // of the part that takes longest
  }
  if (sum.seconds > 0) {
    sum.intra_share /= sum.seconds;
    sum.network_share /= sum.seconds;
  }
  return sum;
}

}  // namespace stepsim
