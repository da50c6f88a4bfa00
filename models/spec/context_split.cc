#include "models/spec/context_split.h"

#include <numeric>

#include "models/spec/mesh_order.h"

namespace stepsim {
namespace {

// Neighbours that share a node, as many as divide both.
std::int64_t RanksOfNode(const JobSpec& job) {
  const std::int64_t stride = MeshStride(job, "cp");
  if (job.gpus_per_node % stride != 0) return 1;
  return std::gcd(job.plan.context_parallel, job.gpus_per_node / stride);
}

}  // namespace

ContextSplit SplitContext(const JobSpec& job) {
  const std::int64_t ranks = job.plan.context_parallel;
  switch (job.plan.context.comm_type) {
    case ContextExchange::kP2p:
      break;
    case ContextExchange::kAllGather:
      return {1, ranks, ranks > 1};
    case ContextExchange::kAllToAll:
      return {ranks, 1};
    case ContextExchange::kAllToAllP2p: {
      const std::int64_t heads = RanksOfNode(job);
      return {heads, ranks / heads};
    }
  }
  return {1, ranks};
}

}  // namespace stepsim
