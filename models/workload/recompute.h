// What does backward run again? Activation recomputation (checkpointing) as a change to a workload:
// some saved tensors are dropped after forward, and operators run a second time to make them anew.
//
//   full:       a layer keeps its input; all of its forward runs again before its backward
//   core_attn:  scores and probabilities are dropped, q, k and v are kept
//
// A tensor is dropped when it was written by an operator that runs again and is saved inside the
// same checkpoint. What such an operator reads from outside is held instead, where nobody saves it.
// Equations and sources: models/README.md, "Recomputation".
#pragma once

#include "models/spec/memory_spec.h"
#include "models/workload/workload.h"

namespace stepsim {

// Fills Workload::reruns, Operator::dropped and Operator::held. Only layers are checkpointed, not
// embeddings, heads and losses. REQUIRES: operators tell what they read.
void ApplyRecompute(const RecomputeSpec& recompute, Workload* workload);

}  // namespace stepsim
