#include "models/memory/formula_activations.h"

#include <algorithm>

#include "models/memory/formula_parameters.h"

namespace stepsim {
namespace {

double Real(std::int64_t value) { return static_cast<double>(value); }

// Widths in elements per token on one GPU.
struct Widths {
  explicit Widths(const FormulaJob& job)
      : tokens(TokensPerGpu(job)),
        scattered(ScatteredTokens(job)),
        hidden(Real(job.model.hidden)),
        query(hidden / Real(job.tensor_parallel)),
        heads(Real(job.model.heads) / Real(job.tensor_parallel)),
        key_value(query * Real(job.model.kv_heads) / Real(job.model.heads)),
        ffn(Real(job.model.ffn) / Real(job.tensor_parallel)) {}
  double tokens, scattered, hidden, query, heads, key_value, ffn;
};

using Tensors = std::vector<KeptTensor>;

// Korthikanti et al., section 4: bytes of a layer with dropout, GELU and a kept softmax.
Tensors UnfusedTensors(const FormulaJob& job) {
  const Widths w(job);
  const double scores = w.heads * w.tokens * Real(job.sequence);  // per head and pair of tokens
  return {{"norm input", 2 * w.scattered * w.hidden},
          {"norm output", 2 * w.scattered * w.hidden},
          {"query, key, value", 2 * w.tokens * (w.query + 2 * w.key_value)},
          {"softmax", 2 * scores},
          {"softmax dropout mask", scores},
          {"softmax dropout output", 2 * scores},
          {"attention output", 2 * w.tokens * w.query},
          {"dropout mask", w.scattered * w.hidden},
          {"norm input", 2 * w.scattered * w.hidden},
          {"norm output", 2 * w.scattered * w.hidden},
          {"GELU input", 2 * w.tokens * w.ffn},
          {"GELU output", 2 * w.tokens * w.ffn},
          {"dropout mask", w.scattered * w.hidden}};
}

bool IsScores(const KeptTensor& tensor) { return tensor.name.substr(0, 7) == "softmax"; }

void AddFusedNorm(const Widths& w, Tensors& out) {
  out.push_back({"norm input", 2 * w.scattered * w.hidden});
  out.push_back({"norm scale", 4 * w.scattered});
  out.push_back({"norm output", 2 * w.scattered * w.hidden});
}

// Queries and keys after the rotation, values as a tensor of their own; the all-to-all of context
// parallelism keeps the output on both of its sides.
void AddFlashAttention(const FormulaJob& job, const Widths& w, Tensors& out) {
  out.push_back({"query, key, value", 2 * w.tokens * (w.query + 2 * w.key_value)});
  out.push_back({"attention output", 2 * w.tokens * w.query});
  out.push_back({"log-sum-exp", 4 * w.tokens * w.heads});
  if (job.context_parallel > 1 && job.states != StateLayout::kFsdp2) {
    out.push_back({"attention output before the exchange", 2 * w.tokens * w.query});
  }
}

// Compressed queries, keys and values, their norms, and the heads that grow out of them.
void AddLatentAttention(const FormulaJob& job, const Widths& w, Tensors& out) {
  const LatentAttention& mla = *job.model.latent;
  const double query = Real(mla.query_rank), kv = Real(mla.key_value_rank);
  out.push_back({"compressed query", 2 * w.tokens * query * 2});
  out.push_back({"compressed key and value", 2 * w.tokens * (2 * kv + Real(mla.rotary_head))});
  out.push_back({"query", 2 * w.tokens * w.heads * Real(mla.head + mla.rotary_head)});
  out.push_back({"key", 2 * w.tokens * w.heads * Real(mla.head + mla.rotary_head)});
  out.push_back({"value", 2 * w.tokens * w.heads * Real(mla.value_head)});
  out.push_back({"attention output", 2 * w.tokens * w.heads * Real(mla.value_head)});
  out.push_back({"log-sum-exp", 4 * w.tokens * w.heads});
}

void AddFusedMlp(bool is_gated, double tokens, double ffn, Tensors& out) {
  out.push_back({"gate and up", 2 * tokens * ffn * (is_gated ? 2 : 1)});
  out.push_back({"activated", 2 * tokens * ffn});
}

Tensors FusedTensors(const FormulaJob& job, LayerKind kind) {
  const Widths w(job);
  Tensors out;
  AddFusedNorm(w, out);
  job.model.latent ? AddLatentAttention(job, w, out) : AddFlashAttention(job, w, out);
  AddFusedNorm(w, out);
  if (kind == LayerKind::kDense) {
    AddFusedMlp(job.model.is_gated, w.tokens, w.ffn, out);
    return out;
  }
  const ExpertMlp& moe = *job.model.experts;
  AddFusedMlp(true, w.tokens, Real(moe.shared_ffn) / Real(job.tensor_parallel), out);
  const double routed = w.scattered * Real(moe.top_k);  // balanced: as many as a GPU sends away
  out.push_back({"routed tokens", 2 * routed * w.hidden});
  AddFusedMlp(true, routed, Real(moe.ffn), out);
  return out;
}

// torchtitan's Llama: F.rms_norm in fp32, rotation in fp32, keys and values repeated per head.
Tensors EagerTensors(const FormulaJob& job) {
  const Widths w(job);
  const double norm = (4 + 2 + 2) * w.scattered * w.hidden;  // fp32 input, normalized, weighted
  return {{"norm", norm},
          {"query", 2 * w.tokens * w.query},
          {"repeated key", 2 * w.tokens * w.query},
          {"repeated value", 2 * w.tokens * w.query},
          {"attention output", 2 * w.tokens * w.query},
          {"log-sum-exp", 4 * w.tokens * w.heads},
          {"norm", norm},
          {"gate", 2 * w.tokens * w.ffn},
          {"activated gate", 2 * w.tokens * w.ffn},
          {"up", 2 * w.tokens * w.ffn},
          {"product", 2 * w.tokens * w.ffn}};
}

// torchtitan's "op": outputs of products 1, 3, 5, 7 (query, value, gate, down), of attention, and
// the layer's input. No gradient depends on the output of "down"; eager recompute caches it all the
// same, a compiler sees that nobody reads it.
double EverySecondProduct(const FormulaJob& job) {
  const Widths w(job);
  const double layer_wide = 2 * w.scattered * w.hidden;
  return layer_wide + 2 * w.tokens * (w.query + w.key_value + w.query + w.ffn) +
         4 * w.tokens * w.heads + (job.kernels == LayerKernels::kEager ? layer_wide : 0);
}

}  // namespace

double TokensPerGpu(const FormulaJob& job) {
  return Real(job.sequence) * Real(job.micro_batch) / Real(job.context_parallel);
}

double ScatteredTokens(const FormulaJob& job) {
  return TokensPerGpu(job) / (job.has_sequence_parallel ? Real(job.tensor_parallel) : 1);
}

std::vector<KeptTensor> LayerTensors(const FormulaJob& job, LayerKind kind) {
  switch (job.kernels) {
    case LayerKernels::kUnfused:
      return UnfusedTensors(job);
    case LayerKernels::kEager:
      return EagerTensors(job);
    case LayerKernels::kFused:
      break;
  }
  return FusedTensors(job, kind);
}

double TotalBytes(const std::vector<KeptTensor>& tensors) {
  double sum = 0;
  for (const KeptTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

double KeptLayerBytes(const FormulaJob& job, LayerKind kind) {
  std::vector<KeptTensor> tensors = LayerTensors(job, kind);
  switch (job.kept) {
    case KeptActivations::kAll:
      break;
    case KeptActivations::kCoreAttentionRecomputed:
      tensors.erase(std::remove_if(tensors.begin(), tensors.end(), IsScores), tensors.end());
      break;
    case KeptActivations::kEverySecondProduct:
      return EverySecondProduct(job);
    case KeptActivations::kLayerInputs:
      return 2 * ScatteredTokens(job) * Real(job.model.hidden);
  }
  return TotalBytes(tensors);
}

double LayerWorkingSet(const FormulaJob& job, LayerKind kind) {
  const Widths w(job);
  // The largest moment of the gradients: into the MLP's second product and out of its first.
  double gradients = 2 * w.tokens * w.ffn * (job.model.is_gated ? 3 : 2);
  if (kind == LayerKind::kExperts) {
    const ExpertMlp& moe = *job.model.experts;
    gradients = 2 * w.scattered * Real(moe.top_k) * (2 * w.hidden + 3 * Real(moe.ffn));
  }
  gradients += 2 * w.scattered * w.hidden;  // arriving at the layer's output
  const double all = TotalBytes(LayerTensors(job, kind));
  return gradients + (all - std::min(all, KeptLayerBytes(job, kind)));
}

LossBytes LossMemory(const FormulaJob& job) {
  const double n = TokensPerGpu(job), h = Real(job.model.hidden);
  const double logits = n * VocabularyPerGpu(job);
  const bool gathers = job.has_sequence_parallel && job.tensor_parallel > 1;
  const double norm_bytes = job.kernels == LayerKernels::kEager ? 8 : 4;
  const double head = norm_bytes * ScatteredTokens(job) * h + (gathers ? 2 * n * h : 0);
  double live = 2, blocks = 2;  // bytes per logit
  switch (job.loss) {
    case LossTensors::kInPlace:
      break;
    case LossTensors::kVocabParallel:
      live = blocks = 2 + 4 + 4;
      break;
    case LossTensors::kEager:  // the 16-bit logits are gone when the third fp32 tensor comes
      live = 3 * 4;
      blocks = 2 + 3 * 4;
      break;
    case LossTensors::kCompiled:
      live = blocks = 2 + 2;
      break;
    case LossTensors::kDTensorParallel:
      live = 4 * 4;
      blocks = 2 + 4 * 4;
      break;
  }
  return {head + live * logits, head + blocks * logits};
}

double LiveMicrobatches(const FormulaJob& job, std::int64_t stage) {
  const double p = Real(job.pipeline_parallel), v = Real(job.virtual_stages);
  const double m = Real(job.micro_batches);
  if (job.virtual_stages <= 1) return std::min(p - Real(stage), m);
  return std::min((v - 1) * p + 2 * (p - Real(stage) - 1) + 1, m * v) / v;
}

}  // namespace stepsim
