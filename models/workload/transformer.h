// How much work is a transformer? Units and operators of one micro-step, forward order:
//
//   embedding   token_embedding, position_embedding, token_type_embedding, norm, dropout
//   layers.N    norm1, qkv | q k v, rotary, attention, proj, dropout1, residual1,
//               norm2, fc1 | gate up, activation, fc2 | down, dropout2, residual2
//               (BERT: norm1 and norm2 follow residual1 and residual2)
//   final_norm  norm
//   pooler, mlm_transform                                        (BERT)
//   head        head: T x h x V, tied or not
//   loss        cross_entropy
//
// Where the compute dtype differs from the parameters' (autocast), an operator "<linear>.cast"
// before each linear casts its weight and bias once; its backward casts their gradients back, and
// only then are they ready. Sizes: models/README.md, "Operators", "Bytes", "Activation memory".
#pragma once

#include "models/spec/job.h"
#include "models/workload/workload.h"

namespace stepsim {

// REQUIRES: job.model.network holds a TransformerSpec.
Workload BuildTransformerWorkload(const JobSpec& job);

}  // namespace stepsim
