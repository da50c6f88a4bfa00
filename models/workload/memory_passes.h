// How often does a memory-bound kernel move the tensor it works on, and in how many launches? One
// table for each way to run a network: PyTorch eager, torch.compile, hand-fused kernels. Each
// number is a count of what the kernels read and write: models/README.md, "Bytes".
//
//   const MemoryPasses& passes = PassesOf(KernelMode::kEager);
//   TrafficWork(passes.residual_add, {DType::kBf16, DType::kFp32}, tokens * hidden)
#pragma once

#include <cstdint>

#include "models/spec/job.h"
#include "sim/base/dtype.h"
#include "sim/graph/work.h"

namespace stepsim {

// The types that an element is read or written in.
struct TrafficTypes {
  DType activation = DType::kBf16;  // of what the products read and write
  // Of the residual stream and the norms: autocast keeps them in fp32.
  DType stream = DType::kBf16;
};

// Moves (reads plus writes) of every element, by the type in which it moves.
struct Traffic {
  int activation = 0;
  int stream = 0;
  int wide = 0;    // fp32 whatever the types are
  int mask = 0;    // one byte
  int casts = 0;   // activation <-> stream: a move of each and a launch, where the types differ
  int widens = 0;  // stream <-> fp32: the same, where the stream is narrower
  int kernels = 1;
};

struct MemoryPasses {
  Traffic layer_norm, layer_norm_input_grad, layer_norm_weight_grad, layer_norm_saved;
  Traffic rms_norm, rms_norm_input_grad, rms_norm_weight_grad, rms_norm_saved;
  Traffic residual_add, residual_grad;
  Traffic stream_gradient_add;    // a tensor of the stream used twice: the gradients are added
  Traffic parallel_gradient_add;  // of linears that read one input
  Traffic rotary, rotary_grad;    // of all elements of q and k
  Traffic dropout, dropout_grad;  // of an activation
  Traffic activation, activation_grad;
  Traffic gated_activation, gated_activation_grad, gated_activation_saved;
  Traffic input_cast, input_cast_grad;  // a linear reads the stream
  Traffic bias_grad;
  Traffic loss, loss_grad, loss_saved;  // of the logits
  Traffic softmax, softmax_grad;        // of the scores, unfused attention: scale, mask, softmax
  Traffic score_dropout;                // of the probabilities, forward and backward
  // Mixtures of experts: of tokens x experts; of the rows that are sent; of the experts' width.
  Traffic routing, routing_grad;
  Traffic permute, permute_grad, unpermute, unpermute_grad;  // and token_sum of the tokens
  Traffic token_sum;                                         // what rows are added to
  Traffic sort;                                              // and back, and their gradients
  Traffic weighing, weighing_grad, weighing_saved;           // by the router's probabilities
  Traffic shared_sum;                                        // with the shared expert's result
};

const MemoryPasses& PassesOf(KernelMode mode);

Bytes TrafficBytes(const Traffic& traffic, const TrafficTypes& types, std::int64_t elements);
// No bytes and no kernels: there is nothing to run.
ComputeWork TrafficWork(const Traffic& traffic, const TrafficTypes& types, std::int64_t elements);

}  // namespace stepsim
