// How much work is a layer? Operators with FLOPs, bytes and parameters; no time, no rank.
//
// A Workload is one micro-step of one replica: units (layers) in execution order, each a list of
// operators in forward order. Backward runs units and operators in reverse; per operator first the
// input gradient, then the weight gradient, then its parameters' gradients are ready.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/spec/job.h"
#include "models/workload/attention_steps.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/graph/work.h"

namespace stepsim {

struct ParameterTensor {
  std::string name;  // "transformer.h.3.mlp.c_fc.weight"
  std::int64_t elements = 0;
  DType dtype = DType::kFp32;  // of the parameter and its gradient
  // Whole on every tensor-parallel rank, with a gradient from that rank's part of the sequence.
  bool is_tensor_replicated = false;
  // Of experts that are dealt out otherwise than the rest: summed over ranks of its own.
  bool is_expert = false;
  // The products' weights themselves are fp8, on the wire too (Megatron's fp8_param_gather).
  bool is_fp8 = false;
  Bytes bytes() const { return SizeOf(dtype, elements); }
};

constexpr std::int32_t kUnitInput = -1;  // written by the unit before

// An activation that an operator's forward reads.
struct ReadTensor {
  std::int32_t writer = kUnitInput;  // index of the operator of the same unit
  Bytes bytes;
  bool is_saved = false;    // backward reads it too
  bool is_counted = false;  // ... and it is part of this operator's `saved`, not of another's
  std::int32_t part = 0;    // of what the writer wrote: q, k and v of one product
};

// Ranks that share one copy of a layer and talk to each other in it.
enum class ExchangeAxis : std::uint8_t {
  kTensor,
  kContextHeads,  // those of kContextRing that swap sequence for heads before (SplitContext)
  kContextRing,
  kExpert,
  kExpertTensor,
  kExperts  // the two above together
};

// When an operator's exchange is issued, and what waits for it.
enum class ExchangePlace : std::uint8_t {
  kBeforeForward,         // its kernel reads it
  kAfterForward,          // the operator behind it reads it
  kBeforeBackward,        // its input gradient reads it: nothing to hide behind
  kBesideInputGradient,   // issued before the input gradient, read by the weight gradient
  kBesideWeightGradient,  // issued after the input gradient, read by the operator before it
  kAfterInputGradient     // nothing to hide behind: the operator before it reads it
};

// Communication that belongs to an operator.
struct Exchange {
  ExchangePlace place{};
  ExchangeAxis axis{};
  CollectiveOp op{};
  DType dtype{};
  Bytes bytes;       // as CollectiveWork has them
  std::string name;  // "all_gather x"
  // The host reads what it brings before it launches what follows.
  bool host_reads = false;
};

// Operators that run on a stream of their own: those between one that opens and one that joins it,
// in backward the other way round. (A shared expert beside the dispatch of the others.)
enum class SideStream : std::uint8_t { kNone, kOpens, kRuns, kJoins };

// Parts of a layer between which one of another micro-batch may run (paired_runner.h). Dispatch and
// combine move tokens; what follows the latter to the end of the layer belongs to it.
enum class LayerPart : std::uint8_t { kAttention, kDispatch, kMlp, kCombine };

struct Operator {
  std::string name;  // "qkv", unique within its unit
  ComputeWork forward;
  std::vector<ComputeWork> backward_input;   // input gradient; may be empty (first layer)
  std::vector<ComputeWork> backward_weight;  // weight gradient; empty without parameters
  // Indices into Workload::parameters of tensors whose gradient is complete after this operator's
  // backward (a tied table appears only at its last use in backward), in the order autograd
  // accumulates them.
  std::vector<std::int32_t> parameters_ready;
  // Tensors that it reads as well and whose gradient another operator completes (a tied head).
  std::vector<std::int32_t> also_uses;
  Bytes saved;                    // activations that backward needs of forward
  std::vector<ReadTensor> reads;  // what recomputation has to know; empty in layer lists
  // Recomputation: what of `saved` forward throws away, and what it holds besides to run again.
  Bytes dropped;
  Bytes held;
  Bytes kept() const { return saved - dropped + held; }  // from forward to backward
  // Beside what is saved. Gradients of activations come into being when backward begins with the
  // operator and go when it ends with the operator that wrote the activation (gradient_flow.h);
  // those of weights in another type than the parameter's go when they have been cast or added.
  Bytes forward_workspace;
  Bytes backward_workspace;
  Bytes gradients_made, gradients_taken;                // of activations
  Bytes weight_gradients_made, weight_gradients_taken;  // that are not yet a parameter's
  bool hands_on_gradient = false;   // a sum: its operands' gradients are the sum's own
  std::vector<Exchange> exchanges;  // in the order in which those of one place are issued
  // The host reads its result before it launches what follows (sizes that only the device knows).
  bool host_reads = false;
  SideStream side = SideStream::kNone;
  LayerPart part = LayerPart::kAttention;  // of a layer, where micro-batches are paired
  bool is_exchange = false;                // no kernel: its exchanges move what was written before
  // Attention over keys and values of several ranks: the kernels that stand for the one in
  // `forward` and the one in `backward_input`. nullptr: none do.
  std::shared_ptr<const AttentionSteps> steps;
};

// Operators whose forward runs again, right before the backward of `before` (reruns of one operator
// come in the order of Workload::reruns). Tensors that it makes anew live until the backward of the
// operators that saved them.
struct OperatorPlace {
  std::int32_t unit = 0;
  std::int32_t op = 0;
  auto operator<=>(const OperatorPlace&) const = default;
};
struct Rerun {
  struct Step {
    OperatorPlace place;
    Bytes remade;  // written by this operator and dropped in forward
  };
  OperatorPlace before;
  std::vector<Step> steps;  // in forward order
};

struct ModelUnit {
  std::string name;  // "embedding", "layers.0", ..., "head", "loss"
  std::vector<Operator> operators;
  Bytes output;  // that it hands to the unit behind it; layer lists do not tell
};

struct Workload {
  std::vector<ModelUnit> units;             // execution order
  std::vector<ParameterTensor> parameters;  // registration order
  std::vector<Rerun> reruns;                // activation recomputation; in order of `before`
  Bytes buffers;                            // non-parameter state, broadcast by DDP
  double samples = 0;                       // of this micro-step, one replica
  double tokens = 0;
  std::int64_t parameter_count() const;
  Bytes parameter_bytes() const;
  Bytes saved_bytes() const;  // activations alive between forward and backward
  std::span<const Rerun> RerunsBefore(OperatorPlace place) const;
  const Operator& OperatorAt(OperatorPlace place) const {
    return units[static_cast<std::size_t>(place.unit)]
        .operators[static_cast<std::size_t>(place.op)];
  }
  // Gradient arrival order: indices of parameters as backward completes them.
  std::vector<std::int32_t> ArrivalOrder() const;
};

// Transformers: models/workload/transformer.h; explicit layers: models/workload/layer_list.h.
Workload BuildWorkload(const JobSpec& job);

}  // namespace stepsim
