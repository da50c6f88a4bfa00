// How does PyTorch hide a tensor-parallel collective inside its matrix product? Async TP: products
// fused with collectives on symmetric memory, cut by rank into kernels on two streams that take
// turns, with peers' parts pulled by the copy engine.
//
//   compute | barrier | copy | barrier | product 0 | pull 2 | product 2 | ..     gather, 4 ranks
//   second  |                          | pull 1 | product 1 | pull 3 | product 3 | barrier
//
// models/README.md, "Async tensor parallel".
#pragma once

#include <string>

#include "models/parallel/rank_program.h"
#include "models/workload/workload.h"

namespace stepsim {

class AsyncTensor {
 public:
  // `group`: the tensor-parallel ranks, all on one node.
  AsyncTensor(RankProgram& rank, GroupId group, std::int64_t ranks);

  // all_gather -> product. The gathered tensor itself is made as well when somebody reads it later.
  TaskSpan GatherAndMultiply(const Exchange& gather, const ComputeWork& product,
                             bool keeps_gathered, const std::string& name);
  // product -> reduce_scatter: partial results go to their owner, who adds them up.
  TaskSpan MultiplyAndScatter(const ComputeWork& product, const Exchange& scatter,
                              const std::string& name);

 private:
  TaskId Barrier(StreamId stream, const std::string& name);
  void Pull(StreamId stream, const Exchange& exchange, const std::string& name);
  // Odd steps run on the second stream.
  StreamId StreamOf(std::int64_t step) const { return step % 2 == 0 ? rank_.compute() : second_; }
  Bytes PartOf(const Exchange& exchange) const { return Bytes{exchange.bytes.value / ranks_}; }

  RankProgram& rank_;
  GroupId group_;
  std::int64_t ranks_;
  StreamId second_;
  StreamId engine_;  // copies into this rank
};

}  // namespace stepsim
