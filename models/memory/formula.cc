#include "models/memory/formula.h"

#include <algorithm>

#include "models/memory/formula_activations.h"
#include "models/memory/formula_parameters.h"

namespace stepsim {
namespace {

double Real(std::int64_t value) { return static_cast<double>(value); }

// Reserved over allocated, the median of 19 configurations of Megatron-LM whose publication gives
// both (SimuMax, B200): splitting and rounding of blocks.
constexpr double kReservedPerAllocated = 1.053;
// A CUDA context with PyTorch's kernels on an A100, measured by BigScience with an empty process.
constexpr double kContextBytes = 1573.0 * (1 << 20);
constexpr double kDeepSpeedBucket = 5e8;  // elements: reduce_bucket_size, allgather_bucket_size

bool IsDeepSpeed(StateLayout states) {
  return states == StateLayout::kZero0 || states == StateLayout::kZero1 ||
         states == StateLayout::kZero1Fp32Gradients;
}

// What one pipeline stage holds.
struct Stage {
  Stage(const FormulaJob& job_in, std::int64_t stage_in)
      : job(job_in),
        index(stage_in),
        layers(LayersOfStage(job, index)),
        parameters(ParametersOfStage(job, index)) {}

  double States(double StateBytes::*part) const {
    return StateBytesPerParameter(job.states, DenseShards(job)).*part * parameters.dense +
           StateBytesPerParameter(job.states, ExpertShards(job)).*part * parameters.experts;
  }

  // One microbatch through the layers of the stage.
  double MicrobatchBytes() const {
    double bytes = 0;
    if (layers.dense > 0) bytes += Real(layers.dense) * KeptLayerBytes(job, LayerKind::kDense);
    if (layers.experts > 0) {
      bytes += Real(layers.experts) * KeptLayerBytes(job, LayerKind::kExperts);
    }
    if (KeepsSentOutputs()) bytes += BoundaryBytes();
    return bytes;
  }

  // Megatron frees what it has sent to the next stage; DeepSpeed and PyTorch keep it until the
  // gradient for it has gone backward.
  bool KeepsSentOutputs() const {
    const bool is_megatron =
        job.states == StateLayout::kMegatron || job.states == StateLayout::kMegatronDistributed;
    return !is_megatron && !layers.has_head;
  }
  double BoundaryBytes() const { return 2 * ScatteredTokens(job) * Real(job.model.hidden); }

  // PyTorch's stages hold one receive buffer per microbatch and direction for the whole run; those
  // of live microbatches are the inputs of the first layer, counted there.
  double ReceiveBuffers() const {
    if (job.states != StateLayout::kFsdp2 || job.pipeline_parallel <= 1) return 0;
    const double all = Real(job.micro_batches);
    const double forward =
        layers.has_embedding ? 0 : all - std::min(all, LiveMicrobatches(job, index));
    return (forward + (layers.has_head ? 0 : all)) * BoundaryBytes();
  }

  // Autograd makes every weight gradient as a tensor of its own before it is added to the sum of
  // earlier microbatches; fused accumulation does not.
  double GradientTemporary() const {
    if (!IsDeepSpeed(job.states) || job.micro_batches <= 1) return 0;
    return 2 * LargestWeight();
  }

  double LargestWeight() const {
    double largest = std::max(parameters.embedding, parameters.head);
    for (const Weight& weight : MlpWeights(job)) largest = std::max(largest, weight.elements());
    return largest;
  }

  double WorkingSet() const {
    double bytes = 0;
    if (layers.dense > 0) bytes = LayerWorkingSet(job, LayerKind::kDense);
    if (layers.experts > 0) bytes = std::max(bytes, LayerWorkingSet(job, LayerKind::kExperts));
    return bytes;
  }

  const FormulaJob& job;
  std::int64_t index;
  StageLayers layers;
  StageParameters parameters;
};

// ---- FSDP2: gathered parameters ----

struct Gathered {
  double compute = 0;  // unsharded parameters
  double streams = 0;  // buffers that belong to the streams of collectives
};

Gathered GatheredParameters(const Stage& stage) {
  const FormulaJob& job = stage.job;
  if (job.states != StateLayout::kFsdp2) return {};
  const double width = job.has_fp8_weights ? 1 : 2;
  const double root = 2 * (stage.parameters.embedding + stage.parameters.head);
  const double layer = width * stage.parameters.layer;
  Gathered result;
  if (job.pipeline_parallel > 1) {
    // Nothing is resharded between microbatches, and gradients add up unsharded in fp32.
    const double layers =
        stage.parameters.dense - stage.parameters.embedding - stage.parameters.head;
    result.compute = root + width * layers + 4 * stage.parameters.dense;
  } else {
    result.compute = root + layer;  // the last layer is kept for its backward
  }
  // Two buffers of a layer are alive at once; the stream's pool keeps the root's, freed long since.
  result.streams = 2 * layer;
  if (job.figure != MemoryFigure::kAllocated) result.streams = std::max(root, 2 * layer);
  return result;
}

// ---- DeepSpeed ZeRO-1: flat tensors between the last backward and the next forward ----

// Each is larger than any activation and so a block of its own: it adds to what the allocator has
// reserved. Sum of: reduce buffer, gather buffer, the owned gradients as a flat 16-bit and a flat
// fp32 tensor, and the largest owned gradient in fp64 for its norm.
double DeepSpeedFlatBytes(const Stage& stage) {
  const FormulaJob& job = stage.job;
  if (!IsDeepSpeed(job.states)) return 0;
  const double all = stage.parameters.dense;
  const double reduce = std::min(kDeepSpeedBucket, all),
               gather = 2 * std::min(kDeepSpeedBucket, all);
  if (job.states == StateLayout::kZero1Fp32Gradients) return 4 * reduce + gather;
  const double shards = job.states == StateLayout::kZero0 ? 1 : DenseShards(job);
  const double owned = all / shards;
  return 2 * reduce + gather + (2 + 4) * owned + 8 * std::min(stage.LargestWeight(), owned);
}

}  // namespace

StateBytes StateBytesPerParameter(StateLayout layout, double shards) {
  switch (layout) {
    case StateLayout::kFp32Ddp:
      return {4, 4, 8};
    case StateLayout::kMegatron:
      return {2, 4, 12};
    case StateLayout::kMegatronDistributed:
      return {2, 4, 12 / shards};
    case StateLayout::kZero0:
      return {2, 2, 12};
    case StateLayout::kZero1:
      return {2, 2, 12 / shards};
    case StateLayout::kZero1Fp32Gradients:
      return {2, 6, 12 / shards};
    case StateLayout::kZero2:
      return {2, 2 / shards, 12 / shards};
    case StateLayout::kZero3:
      return {2 / shards, 2 / shards, 12 / shards};
    case StateLayout::kFsdp2:
      break;
  }
  return {4 / shards, 4 / shards, 8 / shards};
}

MemoryEstimate EstimateStage(const FormulaJob& job, std::int64_t index) {
  const Stage stage(job, index);
  const bool is_allocated = job.figure == MemoryFigure::kAllocated;
  const double live = LiveMicrobatches(job, index);
  const double activations = live * stage.MicrobatchBytes() + stage.ReceiveBuffers();
  const LossBytes loss = stage.layers.has_head ? LossMemory(job) : LossBytes{};
  const Gathered gathered = GatheredParameters(stage);
  const double flat = DeepSpeedFlatBytes(stage);
  double gradients = stage.States(&StateBytes::gradient);
  double working = std::max(is_allocated ? loss.live : loss.blocks,
                            stage.WorkingSet() + stage.GradientTemporary());
  // Gradient shards come into being as activations go: the larger of the two counts. The allocator
  // keeps a pool of blocks per stream, so what it has reserved holds both.
  const bool is_sharded = job.states == StateLayout::kFsdp2 || job.states == StateLayout::kZero3;
  if (is_allocated && is_sharded && job.pipeline_parallel == 1) {
    gradients = std::max(0.0, gradients - activations);
  }
  // The optimizer's flat tensors come when activations are gone, and fit into none of their blocks.
  working = is_allocated ? std::max(working, flat - activations) : working + flat;
  MemoryEstimate result;
  result.stage = index;
  result.parts = {{"parameters", stage.States(&StateBytes::parameter)},
                  {"gradients", gradients},
                  {"optimizer_states", stage.States(&StateBytes::optimizer)},
                  {"unsharded_parameters", gathered.compute + gathered.streams},
                  {"placeholders", PlaceholderBytes(job, index)},
                  {"activations", activations},
                  {"working_set", working}};
  for (const auto& [name, bytes] : result.parts) result.total += bytes;
  const double slack = is_allocated ? 0 : (kReservedPerAllocated - 1) * result.total;
  const double context = job.figure == MemoryFigure::kDevice ? kContextBytes : 0;
  result.parts.emplace_back("allocator", slack);
  result.parts.emplace_back("context", context);
  result.total += slack + context;
  return result;
}

MemoryEstimate EstimateMemory(const FormulaJob& job) {
  MemoryEstimate largest = EstimateStage(job, 0);
  for (std::int64_t stage = 1; stage < job.pipeline_parallel; ++stage) {
    MemoryEstimate other = EstimateStage(job, stage);
    if (other.total > largest.total) largest = std::move(other);
  }
  return largest;
}

}  // namespace stepsim
