#include "models/spec/context_split.h"

#include <numeric>
#include <string_view>

namespace stepsim {
namespace {

// Ranks from one context parallel neighbour to the next.
std::int64_t ContextStride(const JobSpec& job) {
  const ParallelPlan& plan = job.plan;
  std::string_view order = plan.mesh_order;
  order = order.substr(0, order.find("cp"));
  const auto size_of = [&](std::string_view axis, std::int64_t size) {
    return order.find(axis) == std::string_view::npos ? 1 : size;
  };
  return size_of("tp", plan.tensor_parallel) * size_of("dp", job.replicas()) *
         size_of("pp", plan.pipeline_parallel);
}

// Neighbours that share a node, as many as divide both.
std::int64_t RanksOfNode(const JobSpec& job) {
  const std::int64_t stride = ContextStride(job);
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
