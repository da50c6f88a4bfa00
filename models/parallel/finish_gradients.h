// What happens between the last gradient and the optimizer, whatever the strategy? Gradients that
// ranks of one copy of the network share are summed over them, and the norm of all is taken.
//
//   layer norms under sequence parallelism   one flattened all_reduce over the tensor group
//   tied embeddings across stages            all_reduce between the first and the last stage
//   gradient clipping                        a norm per rank, all_reduces of one number
//
// Megatron-LM's order; models/README.md, "Finishing gradients".
#pragma once

#include <cstdint>
#include <vector>

#include "models/parallel/process_groups.h"
#include "models/parallel/rank_program.h"
#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

class FinishGradients {
 public:
  // `stages`: of this rank.
  FinishGradients(const JobSpec& job, ProcessGroups& groups, RankProgram& rank,
                  std::int64_t global_rank, std::vector<const Workload*> stages);

  void Run();

 private:
  void SumOverTensorGroup();
  void SumTiedEmbeddings();
  void Clip();
  std::vector<GroupId> NormGroups();
  std::vector<std::int32_t> WithModelPeers(const std::vector<std::int32_t>& ranks) const;
  std::vector<std::int32_t> ExpertModelPeers() const;
  void AllReduce(GroupId group, DType dtype, Bytes bytes, const std::string& name, Site site);

  const JobSpec& job_;
  ProcessGroups& groups_;
  RankProgram& rank_;
  std::int64_t global_rank_;
  std::vector<const Workload*> stages_;
};

// Whether norms of gradients are taken: as plan.clip_gradients says.
bool ClipsGradients(const JobSpec& job);

}  // namespace stepsim
