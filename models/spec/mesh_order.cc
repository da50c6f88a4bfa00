#include "models/spec/mesh_order.h"

#include <algorithm>
#include <array>

namespace stepsim {
namespace {

constexpr std::array<std::string_view, 4> kAxes = {"tp", "cp", "dp", "pp"};

}  // namespace

bool IsMeshOrder(std::string_view order) {
  constexpr std::size_t kLength = 11;  // four names of two letters, three dashes
  if (order.size() != kLength) return false;
  for (std::size_t i = 2; i < kLength; i += 3) {
    if (order[i] != '-') return false;
  }
  return std::all_of(kAxes.begin(), kAxes.end(), [&](std::string_view axis) {
    const std::size_t at = order.find(axis);
    return at != std::string_view::npos && at % 3 == 0;
  });
}

std::int64_t MeshStride(const JobSpec& job, std::string_view axis) {
  const ParallelPlan& plan = job.plan;
  const std::string_view order = plan.mesh_order;
  const std::string_view before = order.substr(0, order.find(axis));
  const auto size_of = [&](std::string_view other, std::int64_t size) {
    return before.find(other) == std::string_view::npos ? 1 : size;
  };
  return size_of("tp", plan.tensor_parallel) * size_of("cp", plan.context_parallel) *
         size_of("dp", job.replicas()) * size_of("pp", plan.pipeline_parallel);
}

}  // namespace stepsim
