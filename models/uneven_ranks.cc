#include "models/uneven_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/spec/sharding.h"
#include "models/topology/mesh.h"
#include "models/topology/placement.h"

namespace stepsim {
namespace {

constexpr std::int64_t kMostGroups = 65'536;  // that are looked at

// `size` ranks, each `stride` behind the one before, from any multiple of both.
bool LieAlike(std::int64_t stride, std::int64_t size, std::int64_t node) {
  return node % (stride * size) == 0 || stride % node == 0 ||
         (node % stride == 0 && stride * size % node == 0);
}

// Compares the groups of one kind with rank 0's.
class Comparison {
 public:
  Comparison(const JobSpec& job, std::string_view kind) : job_(job), kind_(kind) {}

  // false: found one that lies otherwise.
  bool Add(std::span<const std::int32_t> group) {
    const Placement placement = PlaceGroup(group, job_.gpus_per_node);
    if (groups_++ == 0) first_ = placement;
    const bool is_alike =
        placement.nodes == first_.nodes && placement.ranks_per_node == first_.ranks_per_node;
    if (!is_alike) {
      text_ = fmt::format(
          "rank 0 does not stand for all: its {} group lies on {} (at most {} on one), that of "
          "rank {} on {} (at most {}); simulate.ranks=all says what that costs",
          kind_, Nodes(first_), first_.ranks_per_node, group.front(), Nodes(placement),
          placement.ranks_per_node);
    }
    return is_alike && groups_ < kMostGroups;
  }

  const std::string& text() const { return text_; }

 private:
  static std::string Nodes(const Placement& placement) {
    return fmt::format("{} node{}", placement.nodes, placement.nodes == 1 ? "" : "s");
  }

  const JobSpec& job_;
  std::string_view kind_;
  std::int64_t groups_ = 0;
  Placement first_;
  std::string text_;
};

std::string AlongAxis(const JobSpec& job, const Mesh& mesh, MeshAxis axis, std::string_view kind) {
  const std::int64_t size = mesh.Size(axis);
  if (size == 1 || LieAlike(mesh.Moved(0, axis, 1), size, job.gpus_per_node)) return "";
  Comparison groups(job, kind);
  for (std::int64_t rank = 0; rank < mesh.gpus(); ++rank) {
    if (mesh.PlaceOf(rank, axis) == 0 && !groups.Add(mesh.Peers(rank, {axis}))) break;
  }
  return groups.text();
}

// Consecutive ranks of those that sum their gradients hold one copy of the parameters.
std::string OfShards(const JobSpec& job, const Mesh& mesh) {
  const Sharding sharding = ShardingOf(job);
  if (sharding.shards == 1 || sharding.replicas == 1) return "";
  const auto size = static_cast<std::size_t>(sharding.shards);
  const std::vector<std::int32_t> all = mesh.Peers(0, {MeshAxis::kContext, MeshAxis::kData});
  Comparison groups(job, "shard");
  for (std::size_t first = 0; first + size <= all.size(); first += size) {
    if (!groups.Add(std::span(all).subspan(first, size))) break;
  }
  return groups.text();
}

// The ranks of a stage are laid out anew: one after the other where stages are outermost.
std::string OfExperts(const JobSpec& job, const Mesh& mesh) {
  const std::int64_t inner = mesh.ExpertSize(ExpertAxis::kTensor);
  const std::int64_t size = mesh.ExpertSize(ExpertAxis::kExpert);
  if (size == 1) return "";
  const std::string& order = job.plan.mesh_order;
  const bool is_contiguous = order.size() > 2 && order.substr(order.size() - 2) == "pp";
  if (is_contiguous && LieAlike(inner, size, job.gpus_per_node)) return "";
  constexpr std::int64_t kMostRanks = 512;  // each asks for all ranks of its stage
  Comparison groups(job, "expert parallel");
  for (std::int64_t rank = 0; rank < std::min(mesh.gpus(), kMostRanks); ++rank) {
    if (!groups.Add(mesh.ExpertPeers(rank, ExpertAxis::kExpert))) break;
  }
  return groups.text();
}

}  // namespace

std::string UnevenRanksWarning(const JobSpec& job) {
  if (job.simulate.all_ranks || job.nodes == 1 || !job.plan.communicates()) return "";
  const Mesh mesh(job.plan, job.gpus());
  std::string text = AlongAxis(job, mesh, MeshAxis::kTensor, "tensor parallel");
  if (text.empty()) text = AlongAxis(job, mesh, MeshAxis::kContext, "context parallel");
  if (text.empty()) text = OfExperts(job, mesh);
  if (text.empty()) text = OfShards(job, mesh);
  if (text.empty()) text = AlongAxis(job, mesh, MeshAxis::kPipeline, "pipeline");
  if (text.empty()) text = AlongAxis(job, mesh, MeshAxis::kData, "data parallel");
  return text;
}

void AddUnevenRanks(const JobSpec& job, StepReport* report) {
  std::string text = UnevenRanksWarning(job);
  std::vector<std::string>& warnings = report->context.warnings;
  if (!text.empty()) warnings.insert(warnings.begin(), std::move(text));
}

}  // namespace stepsim
