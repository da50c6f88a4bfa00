// What does autograd keep? Tensor by tensor, for one layer and one microbatch on one GPU.
#pragma once

#include <string_view>
#include <vector>

#include "models/memory/formula.h"

namespace stepsim {

enum class LayerKind { kDense, kExperts };

struct KeptTensor {
  std::string_view name;
  double bytes = 0;
};

// All tensors of one layer that backward reads, nothing recomputed.
std::vector<KeptTensor> LayerTensors(const FormulaJob& job, LayerKind kind);
double TotalBytes(const std::vector<KeptTensor>& tensors);

// What stays from forward to backward under the job's recompute.
double KeptLayerBytes(const FormulaJob& job, LayerKind kind);

// While one layer goes backward: what is recomputed, and gradients of the widest tensors.
double LayerWorkingSet(const FormulaJob& job, LayerKind kind);

// The loss: final norm, gathered input of the head, logits and what the loss makes of them.
struct LossBytes {
  double live = 0;    // at the largest moment
  double blocks = 0;  // distinct blocks that the allocator holds for it
};
LossBytes LossMemory(const FormulaJob& job);

// Tokens of one microbatch on one GPU, and what of them a sequence-parallel region holds.
double TokensPerGpu(const FormulaJob& job);
double ScatteredTokens(const FormulaJob& job);

// Microbatches whose activations are alive at once, times the share of the stage's layers that each
// keeps: 1F1B min(p - stage, m); interleaved (v-1)p + 2(p-stage-1) + 1 chunks of 1/v.
double LiveMicrobatches(const FormulaJob& job, std::int64_t stage);

}  // namespace stepsim
