// How does Transformer Engine hide a tensor-parallel collective inside its matrix product?
// tp_comm_overlap: kernels of its own on buffers that the peers can write to.
//
//   ring exchange   a part of the product while the part for the next one travels on   gather
//   pipeline        a part of the rows reduced while the next is multiplied             scatter
//   ring scatter    parts sent to their owner, who adds them up                         scatter
//   bulk            one collective beside one whole product (OperatorRunner, with kBulkSms)
//
// models/README.md, "User buffers".
#pragma once

#include <array>
#include <string>

#include "models/parallel/rank_program.h"
#include "models/spec/parallel_spec.h"
#include "models/workload/workload.h"

namespace stepsim {

class UserBuffers {
 public:
  // SMs of its collectives: Transformer Engine's default, and what the last of several parts gets,
  // which no product runs beside (UB_MAX_SM).
  static constexpr std::int32_t kSms = 16;
  static constexpr std::int32_t kMostSms = 32;

  // `group`: the tensor-parallel ranks, all on one node.
  UserBuffers(RankProgram& rank, GroupId group, std::int64_t ranks, const TensorPlan& plan);

  TaskSpan RingGather(const Exchange& gather, const ComputeWork& product, const std::string& name);
  TaskSpan PipelinedScatter(const ComputeWork& product, const Exchange& scatter,
                            const std::string& name);
  TaskSpan RingScatter(const ComputeWork& product, const Exchange& scatter,
                       const std::string& name);

 private:
  static constexpr std::size_t kStreams = 3;  // NVTE_COMM_OVERLAP_MAX_STREAMS

  StreamId StreamOf(std::int64_t part) const {
    return products_[static_cast<std::size_t>(part) % kStreams];
  }
  // All streams behind compute, and compute behind all of them.
  void Fork();
  void Join();
  CollectiveWork Copy(const Exchange& exchange) const;

  RankProgram& rank_;
  GroupId group_;
  std::int64_t ranks_;
  const TensorPlan& plan_;
  std::array<StreamId, kStreams> products_;
  StreamId transfers_;
};

}  // namespace stepsim
