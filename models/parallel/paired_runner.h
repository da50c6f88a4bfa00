// How do a forward and a backward of two micro-batches share the device? Layer by layer, each cut
// into parts: tokens of one are exchanged on a stream of their own while the other computes.
//
//   exchanges   combine bwd | dispatch fwd, dispatch bwd      | combine fwd
//   compute     attention f | mlp bwd, mlp weights, mlp fwd   | attention bwd, attention weights
//
// The n-th layer of the forward meets the n-th last one of the backward. A part waits for the part
// before it of its own micro-batch, and for its stream. Rules: models/README.md, "Paired
// micro-batches".
#pragma once

#include <cstdint>

#include "models/parallel/chunk_runner.h"
#include "models/parallel/rank_program.h"
#include "models/parallel/strategy.h"

namespace stepsim {

struct PairedPass {
  ChunkRunner* chunk;
  Moment moment;
  Position position;
};

// When the layers of either are done, whatever else is under way: transfers wait for that. Of a
// pass that is missing: when the other one is over.
struct PairEnds {
  TaskId first_forward = kNoId<TaskId>;  // its first kernel
  StreamEvent forward;
  StreamEvent backward;
};

// Either may be missing (nullptr): warm-up and drain. `delays_weights`: weight gradients are
// launched where the table has them, those of the last attention behind all layers; else with the
// input gradients.
PairEnds RunPaired(RankProgram& rank, const PairedPass* forward, const PairedPass* backward,
                   bool delays_weights);

}  // namespace stepsim
