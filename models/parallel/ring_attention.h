// How does a rank run attention over keys and values that other ranks hold? As Transformer Engine
// does it: models/README.md, "Context parallel".
//
//   compute  | step 0      || step 2      | fix 1 |    two streams in turn
//   cp             | step 1 | fix 0 | step 3      |
//   nccl cp  | keys 1 | keys 2 | keys 3 |              posted before the step that runs beside it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/parallel/rank_program.h"
#include "models/workload/attention_steps.h"

namespace stepsim {

class RingAttention {
 public:
  // Keys and values travel on stream `nccl` between the members of `group`, of which this rank is
  // at `place`.
  RingAttention(RankProgram& rank, StreamId nccl, GroupId group, std::int64_t place);

  TaskSpan Forward(const AttentionSteps& steps, const std::string& name, std::string_view suffix);
  TaskSpan Backward(const AttentionSteps& steps, const std::string& name);

 private:
  // The gradients' way back, on one stream.
  TaskSpan BackwardRing(const AttentionSteps& steps, const std::string& name);
  TaskSpan BackwardPieces(const AttentionSteps& steps, const std::string& name);
  // On `stream`, behind the step before: it has the SMs until its last thread blocks.
  void LaunchStep(StreamId stream, const ComputeWork& work, const std::string& name,
                  TaskSpan* kernels);
  // What `stream` has so far goes on to the next place. Returns when the same has come from the
  // one before.
  StreamEvent Send(StreamId stream, const AttentionSteps& steps, Bytes bytes,
                   const std::string& name);

  RankProgram& rank_;
  StreamId second_;  // beside compute
  StreamId nccl_;
  GroupId group_;
  std::int64_t place_;
  StreamEvent step_;  // the last one's kernel
};

}  // namespace stepsim
