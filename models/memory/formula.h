// How much memory does one GPU need, in closed form? For runs that are described by a table's row
// (shape, parallel degrees, software), also where the simulator does not go yet: tensor, pipeline,
// context and expert parallelism.
//
//   FormulaJob job;
//   job.model = {.layers = 32, .hidden = 4096, ...};
//   EstimateMemory(job).allocated   // bytes that PyTorch's allocator hands out at the peak
//
// Equations and their sources: models/README.md, "Memory in closed form". Nothing is fitted to the
// published peaks that results/validation compares with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stepsim {

struct LatentAttention {        // DeepSeek's MLA
  std::int64_t query_rank = 0;  // 0: queries are not compressed
  std::int64_t key_value_rank = 0;
  std::int64_t head = 0;         // width of a head without positions
  std::int64_t rotary_head = 0;  // width that carries them
  std::int64_t value_head = 0;
};

struct ExpertMlp {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;
  std::int64_t shared_ffn = 0;    // 0: no shared expert
  std::int64_t dense_layers = 0;  // leading layers with an ordinary MLP
};

struct FormulaModel {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  bool is_gated = true;  // SwiGLU, RMSNorm, no biases; else GELU, LayerNorm, biases
  bool is_tied = false;  // one matrix for embedding and head
  std::optional<LatentAttention> latent;
  std::optional<ExpertMlp> experts;
};

// Who holds what, in bytes per parameter: parameter + gradient + optimizer; d data-parallel ranks.
enum class StateLayout {
  kFp32Ddp,              // 4 + 4 + 8
  kMegatron,             // 2 + 4 + 12
  kMegatronDistributed,  // 2 + 4 + 12/d
  kZero0,                // 2 + 2 + 12
  kZero1,                // 2 + 2 + 12/d
  kZero1Fp32Gradients,   // 2 + 2 + 4 + 12/d: 16-bit gradients are added to a 32-bit buffer
  kZero2,                // 2 + 2/d + 12/d
  kZero3,                // (2 + 2 + 12)/d
  kFsdp2,                // (4 + 4 + 8)/d
};

struct StateBytes {  // per parameter
  double parameter = 0;
  double gradient = 0;
  double optimizer = 0;
  double total() const { return parameter + gradient + optimizer; }
};
// REQUIRES: shards >= 1.
StateBytes StateBytesPerParameter(StateLayout layout, double shards);

// Whose kernels: decides which tensors autograd keeps.
enum class LayerKernels {
  kUnfused,  // Megatron of 2021/22: dropout, softmax kept (Korthikanti et al.)
  kFused,    // Transformer Engine or a compiler: flash attention, fused norm and SwiGLU
  kEager,    // PyTorch operators around flash attention, fp32 inside the norm
};
enum class KeptActivations {
  kAll,
  kCoreAttentionRecomputed,  // Megatron's selective recompute
  kEverySecondProduct,       // torchtitan's selective recompute "op"
  kLayerInputs,              // full recompute
};
// What the loss keeps beside the 16-bit logits, per logit.
enum class LossTensors {
  kInPlace,         // Transformer Engine: the gradient overwrites the logits
  kVocabParallel,   // Megatron's own: fp32 copy and fp32 softmax
  kEager,           // log_softmax in fp32 and its backward: three fp32 tensors
  kCompiled,        // one fused kernel: the 16-bit gradient
  kDTensorParallel  // PyTorch's loss_parallel: four fp32 tensors
};

// What the published figure counts.
enum class MemoryFigure {
  kAllocated,  // torch.cuda.max_memory_allocated
  kReserved,   // torch.cuda.max_memory_reserved
  kDevice,     // nvidia-smi: reserved, context and libraries
};

struct FormulaJob {
  FormulaModel model;
  StateLayout states = StateLayout::kMegatronDistributed;
  LayerKernels kernels = LayerKernels::kFused;
  KeptActivations kept = KeptActivations::kAll;
  LossTensors loss = LossTensors::kInPlace;
  MemoryFigure figure = MemoryFigure::kAllocated;
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 1;
  std::int64_t micro_batches = 1;  // per step and replica
  std::int64_t tensor_parallel = 1;
  std::int64_t pipeline_parallel = 1;
  std::int64_t virtual_stages = 1;  // chunks of layers per GPU
  std::int64_t context_parallel = 1;
  std::int64_t expert_parallel = 1;
  std::int64_t data_parallel = 1;
  bool has_sequence_parallel = false;
  bool has_fp8_weights = false;        // parameters are gathered in 8 bits (FSDP2)
  bool counts_ends_as_layers = false;  // pipeline stages: embedding and head count as layers
};

struct MemoryEstimate {
  std::int64_t stage = 0;  // of the pipeline, which needs most
  // In table order: parameters, gradients, optimizer_states, unsharded_parameters, placeholders,
  // activations, working_set, allocator, context. Sums to `total`.
  std::vector<std::pair<std::string, double>> parts;
  double total = 0;  // bytes, as the job's `figure` counts
};

// The largest stage. REQUIRES: positive sizes and degrees.
MemoryEstimate EstimateMemory(const FormulaJob& job);
MemoryEstimate EstimateStage(const FormulaJob& job, std::int64_t stage);

}  // namespace stepsim
