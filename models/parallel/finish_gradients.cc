#include "models/parallel/finish_gradients.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

constexpr const char* kTied = " (tied)";

bool IsTiedCopy(const ParameterTensor& parameter) { return parameter.name.ends_with(kTied); }

}  // namespace

bool ClipsGradients(const JobSpec& job) {
  return job.plan.clip_gradients.value_or(job.plan.model_ranks() > 1);
}

FinishGradients::FinishGradients(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                                 std::int64_t global_rank, std::vector<const Workload*> stages)
    : job_(job),
      groups_(groups),
      rank_(rank),
      global_rank_(global_rank),
      stages_(std::move(stages)) {}

void FinishGradients::Run() {
  SumOverTensorGroup();
  SumTiedEmbeddings();
  if (ClipsGradients(job_)) Clip();
}

// Parameters that every tensor-parallel rank has whole, but whose gradients come from its part of
// the sequence.
void FinishGradients::SumOverTensorGroup() {
  if (!job_.plan.sequence_parallel()) return;
  std::int64_t elements = 0;
  for (const Workload* stage : stages_) {
    for (const ParameterTensor& p : stage->parameters) {
      if (p.is_tensor_replicated) elements += p.elements;
    }
  }
  if (elements == 0) return;
  const DType dtype = ShardingOf(job_).gradient;
  AllReduce(
      groups_.Of(groups_.mesh().Peers(global_rank_, {MeshAxis::kTensor}), "tp", "tensor parallel"),
      dtype, SizeOf(dtype, elements), "all_reduce layer norms", Site::kTensorParallel);
}

void FinishGradients::SumTiedEmbeddings() {
  const TransformerSpec* spec = TransformerOf(job_);
  const Mesh& mesh = groups_.mesh();
  const std::int64_t last = mesh.Size(MeshAxis::kPipeline) - 1;
  if (spec == nullptr || !spec->tied_embeddings || last == 0) return;
  // The two copies: with the embedding, registered first, and with the head.
  std::int64_t embedding = 0, head = 0;
  for (const Workload* stage : stages_) {
    for (const ParameterTensor& p : stage->parameters) {
      if (IsTiedCopy(p)) head = p.elements;
    }
    if (stage->units.front().name == "embedding") embedding = stage->parameters.front().elements;
  }
  if ((embedding > 0) == (head > 0)) return;  // neither, or both on this rank
  const std::int64_t elements = embedding + head;
  const DType dtype = ShardingOf(job_).gradient;
  std::vector<std::int32_t> ranks = {
      static_cast<std::int32_t>(mesh.Moved(global_rank_, MeshAxis::kPipeline, 0)),
      static_cast<std::int32_t>(mesh.Moved(global_rank_, MeshAxis::kPipeline, last))};
  std::sort(ranks.begin(), ranks.end());
  AllReduce(groups_.Of(std::move(ranks), "embedding", "first and last stage"), dtype,
            SizeOf(dtype, elements), "all_reduce tied embedding", Site::kGradientReduce);
}

// Each rank takes the norm of what it keeps, one number is summed over all, and the gradients are
// scaled.
void FinishGradients::Clip() {
  const Shardings shardings = ShardingsOf(job_);
  const Sharding& sharding = shardings.dense;
  std::int64_t dense = 0, experts = 0;
  for (const Workload* stage : stages_) {
    for (const ParameterTensor& p : stage->parameters)
      (p.is_expert ? experts : dense) += p.elements;
  }
  const auto part = [&](std::int64_t elements, bool of_expert) {
    const std::int64_t shards = shardings.Of(of_expert).optimizer_shards;
    return (elements + shards - 1) / shards;
  };
  const std::int64_t kept = part(dense, false) + part(experts, true);
  const Bytes bytes = SizeOf(sharding.gradient, kept);
  rank_.Launch(rank_.compute(), CopyWork(bytes, Bytes{}), "gradient norm");
  constexpr const char* kName = "norm";
  constexpr const char* kDescription = "all that hold a part of the gradients";
  const GroupId group =
      sharding.optimizer_shards > 1 || job_.plan.has_expert_mesh()
          ? groups_.World(kName, kDescription)
          : groups_.Of(groups_.mesh().Peers(global_rank_, {MeshAxis::kTensor, MeshAxis::kPipeline}),
                       kName, kDescription);
  if (rank_.graph().group(group).ranks.size() > 1) {
    AllReduce(group, DType::kFp32, Bytes{4}, "all_reduce gradient norm", Site::kOptimizer);
  }
  rank_.Launch(rank_.compute(), CopyWork(bytes, bytes), "clip gradients");
}

void FinishGradients::AllReduce(GroupId group, DType dtype, Bytes bytes, const std::string& name,
                                Site site) {
  const StreamId stream = rank_.AddStream("nccl " + rank_.graph().group(group).name);
  rank_.Wait(stream, rank_.Record(rank_.compute()));
  rank_.LaunchCollective(stream, {CollectiveOp::kAllReduce, dtype, bytes, group}, name, site);
  rank_.Wait(rank_.compute(), rank_.Record(stream));
}

}  // namespace stepsim
