#include "models/workload/memory_passes.h"

#include "models/workload/kernel_work.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// PyTorch's eager operators, as Hugging Face's modules call them. One native kernel each for layer
// norm, GELU, dropout and softmax; RMS norm, SwiGLU and rotary embeddings are written out.
constexpr MemoryPasses kEager{
    .layer_norm = {.stream = 2},              // read x, write y
    .layer_norm_input_grad = {.stream = 3},   // read dy, x; write dx
    .layer_norm_weight_grad = {.stream = 2},  // read dy, x
    .layer_norm_saved = {.stream = 1},
    // fp32: pow 2, mean 1, x * rsqrt 2; weight * in the stream's type 2; + eps and rsqrt are small
    .rms_norm = {.stream = 2, .wide = 5, .widens = 2, .kernels = 6},
    // dy * w (2); in fp32: g * rsqrt 2, g * x 3 and its sum 1, mean's gradient 1, pow's (x.pow(1),
    // times 2, times that) 2 + 2 + 3, sum of both 3
    .rms_norm_input_grad = {.stream = 2, .wide = 17, .widens = 2, .kernels = 11},
    .rms_norm_weight_grad = {.stream = 4, .kernels = 2},  // dy * x (3), summed over the rows (1)
    .rms_norm_saved = {.stream = 1, .wide = 1},
    .residual_add = {.activation = 1, .stream = 2},  // read the branch and the stream, write it
    .residual_grad = {.casts = 1, .kernels = 0},     // handed on, in the branch's type
    .stream_gradient_add = {.stream = 3},
    .parallel_gradient_add = {.stream = 3},
    // rotate_half: neg 1, cat 2; * cos and * sin, whose tables have the stream's type; add
    .rotary = {.activation = 5, .stream = 5, .casts = 1, .kernels = 10},
    // both products' gradients; neg 1, two slices cleared and filled 4, three gradients added
    .rotary_grad = {.activation = 11, .stream = 4, .casts = 3, .kernels = 18},
    .dropout = {.activation = 2, .mask = 1},
    .dropout_grad = {.activation = 2, .mask = 1},
    .activation = {.activation = 2},                           // read x, write y
    .activation_grad = {.activation = 3},                      // read dy, x; write dx
    .gated_activation = {.activation = 5, .kernels = 2},       // silu 2, product 3
    .gated_activation_grad = {.activation = 9, .kernels = 3},  // product 3 + 3, silu 3
    .gated_activation_saved = {.activation = 3},               // gate, silu(gate), up
    .input_cast = {.casts = 1, .kernels = 0},
    .input_cast_grad = {.casts = 1, .kernels = 0},
    .bias_grad = {.activation = 1},                     // summed over the rows
    .loss = {.wide = 2, .casts = 1, .widens = 1},       // logits to fp32; log-softmax
    .loss_grad = {.wide = 4, .casts = 1, .widens = 1},  // nll writes; read it and the output; write
    .loss_saved = {.wide = 1},
    .softmax = {.activation = 4, .stream = 2, .casts = 2, .kernels = 3},  // scale 2, mask 2
    .softmax_grad = {.activation = 2, .stream = 3, .casts = 2, .kernels = 2},
    .score_dropout = {.stream = 2, .mask = 1},
    // softmax 1 + 1 fp32, top-k 1, its probabilities and map written, both summed for the
    // auxiliary loss; the chosen are made to add up to 1 in a kernel on top_k columns
    .routing = {.activation = 1, .wide = 4, .mask = 2, .kernels = 6},
    .routing_grad = {.activation = 1, .wide = 4, .kernels = 4},  // of the sums and the softmax
    .permute = {.activation = 2},                                // index_select
    .permute_grad = {.activation = 3, .kernels = 2},             // clear; add row by row
    .unpermute = {.activation = 3, .kernels = 2},
    .unpermute_grad = {.activation = 2},
    .token_sum = {.activation = 1, .kernels = 0},
    .sort = {.activation = 2},
    .weighing = {.activation = 2},
    .weighing_grad = {.activation = 4, .kernels = 2},  // times the weight; the weight's own
    .weighing_saved = {.activation = 1},
    .shared_sum = {.activation = 3}};

// torch.compile: pointwise work is fused into the reduction or copy beside it, dropout is drawn
// again in backward, nothing is cast on its own. A norm's input is still on chip from the residual
// add before it.
constexpr MemoryPasses kCompiled{
    .layer_norm = {.activation = 1, .kernels = 0},
    .layer_norm_input_grad = {.activation = 1, .stream = 2},  // read dy, x; write dx
    .layer_norm_weight_grad = {.activation = 1, .stream = 1},
    .layer_norm_saved = {.stream = 1},
    .rms_norm = {.activation = 1, .kernels = 0},
    .rms_norm_input_grad = {.activation = 1, .stream = 2},
    .rms_norm_weight_grad = {.activation = 1, .stream = 1},
    .rms_norm_saved = {.stream = 1},
    .residual_add = {.activation = 1, .stream = 2},
    .residual_grad = {.kernels = 0},
    .stream_gradient_add = {.stream = 1, .kernels = 0},        // read by the norm's kernel
    .parallel_gradient_add = {.activation = 1, .kernels = 0},  // the same
    .rotary = {.activation = 2},
    .rotary_grad = {.activation = 2},
    .dropout = {.kernels = 0},
    .dropout_grad = {.kernels = 0},
    .activation = {.activation = 2},
    .activation_grad = {.activation = 3},
    .gated_activation = {.activation = 3},
    .gated_activation_grad = {.activation = 5},
    .gated_activation_saved = {.activation = 2},
    .input_cast = {.kernels = 0},
    .input_cast_grad = {.kernels = 0},
    .bias_grad = {.activation = 1},
    .loss = {.activation = 2},       // two reductions over the logits
    .loss_grad = {.activation = 2},  // read the logits, write their gradient
    .loss_saved = {.activation = 1},
    .softmax = {.activation = 2},
    .softmax_grad = {.activation = 3},
    .score_dropout = {.kernels = 0},
    .routing = {.activation = 1, .wide = 2, .mask = 2, .kernels = 3},
    .routing_grad = {.activation = 1, .wide = 2, .kernels = 2},
    .permute = {.activation = 2},
    .permute_grad = {.activation = 3, .kernels = 2},
    .unpermute = {.activation = 3, .kernels = 2},
    .unpermute_grad = {.activation = 2},
    .token_sum = {.activation = 1, .kernels = 0},
    .sort = {.activation = 2},
    .weighing = {.kernels = 0},
    .weighing_grad = {.kernels = 0},
    .weighing_saved = {.kernels = 0},
    .shared_sum = {.activation = 1, .kernels = 0}};  // read by the residual add

// Hand-written kernels (Apex, Transformer Engine, Liger): norms in one kernel that writes what the
// linear reads, bias + dropout + add in one, bias gradients inside the products.
constexpr MemoryPasses kFused{
    .layer_norm = {.activation = 1, .stream = 1},
    .layer_norm_input_grad = {.activation = 1, .stream = 2},
    .layer_norm_weight_grad = {.kernels = 1},  // partial sums of the kernel before, added up
    .layer_norm_saved = {.stream = 1},
    .rms_norm = {.activation = 1, .stream = 1},
    .rms_norm_input_grad = {.activation = 1, .stream = 2},
    .rms_norm_weight_grad = {.kernels = 1},
    .rms_norm_saved = {.stream = 1},
    .residual_add = {.activation = 1, .stream = 2},
    .residual_grad = {.casts = 1, .kernels = 0},
    .stream_gradient_add = {.stream = 3},
    .parallel_gradient_add = {.activation = 3},
    .rotary = {.activation = 2, .kernels = 2},
    .rotary_grad = {.activation = 2, .kernels = 2},
    .dropout = {.mask = 1, .kernels = 0},  // inside the residual add
    .dropout_grad = {.activation = 2, .mask = 1},
    .activation = {.activation = 2},
    .activation_grad = {.activation = 3},
    .gated_activation = {.activation = 3},
    .gated_activation_grad = {.activation = 5},
    .gated_activation_saved = {.activation = 2},
    .input_cast = {.kernels = 0},
    .input_cast_grad = {.kernels = 0},
    .bias_grad = {.kernels = 0},
    .loss = {.activation = 2},
    .loss_grad = {.activation = 2},
    .loss_saved = {.activation = 1},
    .softmax = {.activation = 2},
    .softmax_grad = {.activation = 3},
    .score_dropout = {.activation = 2, .mask = 1},
    .routing = {.activation = 1, .wide = 1, .mask = 2, .kernels = 2},
    .routing_grad = {.activation = 1, .wide = 1, .kernels = 2},
    .permute = {.activation = 1},  // each token is read once
    .permute_grad = {.activation = 1},
    .unpermute = {.activation = 1},
    .unpermute_grad = {.activation = 1},
    .token_sum = {.activation = 1, .kernels = 0},
    .sort = {.activation = 2},
    .weighing = {.kernels = 0},  // inside the activation
    .weighing_grad = {.kernels = 0},
    .weighing_saved = {.kernels = 0},
    .shared_sum = {.activation = 3}};

struct Extent {
  std::int64_t bytes = 0;  // of one element
  std::int32_t kernels = 0;
};

Extent ExtentOf(const Traffic& traffic, const TrafficTypes& types) {
  const std::int64_t activation = ElementSize(types.activation).value;
  const std::int64_t stream = ElementSize(types.stream).value;
  const std::int64_t wide = ElementSize(DType::kFp32).value;
  Extent extent{traffic.activation * activation + traffic.stream * stream + traffic.wide * wide +
                    traffic.mask,
                traffic.kernels};
  if (activation != stream) {
    extent.bytes += traffic.casts * (activation + stream);
    extent.kernels += traffic.casts;
  }
  if (stream != wide) {
    extent.bytes += traffic.widens * (stream + wide);
    extent.kernels += traffic.widens;
  }
  return extent;
}

}  // namespace

const MemoryPasses& PassesOf(KernelMode mode) {
  switch (mode) {
    case KernelMode::kEager:
      return kEager;
    case KernelMode::kCompiled:
      return kCompiled;
    case KernelMode::kFused:
      return kFused;
  }
  SIM_CHECK(false, "a kernel mode without passes");
}

Bytes TrafficBytes(const Traffic& traffic, const TrafficTypes& types, std::int64_t elements) {
  return Bytes{ExtentOf(traffic, types).bytes * elements};
}

ComputeWork TrafficWork(const Traffic& traffic, const TrafficTypes& types, std::int64_t elements) {
  ComputeWork work = MemoryWork(types.activation, TrafficBytes(traffic, types, elements));
  work.kernels = ExtentOf(traffic, types).kernels;
  return work;
}

}  // namespace stepsim
