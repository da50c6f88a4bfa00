#include "models/workload/model_flops.h"

#include <array>

#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

double Real(std::int64_t n) { return static_cast<double>(n); }

std::int64_t QueryWidth(const TransformerSpec& spec) { return spec.heads * spec.head_dim; }
std::int64_t QkvWidth(const TransformerSpec& spec) {
  return (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
}
std::int64_t MlpMatrices(const TransformerSpec& spec) { return spec.gated_mlp ? 3 : 2; }

std::int64_t NormParameters(const TransformerSpec& spec) {
  return spec.norm == NormKind::kLayerNorm ? 2 * spec.hidden_size : spec.hidden_size;
}

// Weights of the matrix products of all layers' MLPs; in a mixture of experts of `experts` in each.
std::int64_t MlpMatrixParameters(const TransformerSpec& spec, std::int64_t experts,
                                 bool with_router) {
  const std::int64_t matrix = MlpMatrices(spec) * spec.hidden_size;
  const std::int64_t mixtures = spec.expert_layers();
  const std::int64_t width = experts * spec.experts.ffn_size + spec.experts.shared_ffn_size;
  std::int64_t count = (spec.layers - mixtures) * matrix * spec.ffn_size;
  if (mixtures == 0) return count;
  if (with_router) count += mixtures * spec.hidden_size * spec.experts.count;
  if (with_router && spec.experts.shared_gate) count += mixtures * spec.hidden_size;
  return count + mixtures * matrix * width;
}

// Weights of the matrix products of all layers.
std::int64_t LayerMatrixParameters(const TransformerSpec& spec, std::int64_t experts,
                                   bool with_router) {
  const std::int64_t h = spec.hidden_size;
  return spec.layers * (h * QkvWidth(spec) + QueryWidth(spec) * h) +
         MlpMatrixParameters(spec, experts, with_router);
}

std::int64_t LayerParameters(const TransformerSpec& spec, std::int64_t experts) {
  std::int64_t vectors = 2 * NormParameters(spec);
  if (spec.qkv_bias) vectors += QkvWidth(spec);
  if (spec.qk_norm) vectors += 2 * spec.head_dim;
  if (spec.output_bias) vectors += spec.hidden_size;
  const std::int64_t mlp_bias = (MlpMatrices(spec) - 1) * spec.ffn_size + spec.hidden_size;
  const std::int64_t dense = spec.layers - spec.expert_layers();
  return LayerMatrixParameters(spec, experts, /*with_router=*/true) + spec.layers * vectors +
         (spec.mlp_bias ? dense * mlp_bias : 0);
}

std::int64_t PositionParameters(const TransformerSpec& spec) {
  return spec.positions == PositionKind::kLearned ? spec.max_positions * spec.hidden_size : 0;
}

// Everything after the last layer, the decoder's weight left out.
std::int64_t HeadParameters(const TransformerSpec& spec) {
  const std::int64_t h = spec.hidden_size;
  std::int64_t count = spec.final_norm ? NormParameters(spec) : 0;
  if (spec.pooler) count += h * h + h;
  if (spec.mlm_head) count += h * h + h + NormParameters(spec) + spec.padded_vocab();
  if (spec.next_sentence_head) count += 2 * h + 2;
  return count;
}

// Full attention, forward, all layers: Q K^T and P V over s x s pairs.
Flops FullAttentionForward(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  const double s = Real(sequence);
  return Flops{4 * Real(spec.layers) * Real(batch) * Real(QueryWidth(spec)) * s * s};
}

// 6 N per token plus full attention: 12 L n_q d s per token.
Flops SixNPlusAttention(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence,
                        std::int64_t parameters) {
  return Flops{6 * Real(parameters) * Real(batch) * Real(sequence)} +
         FullAttentionForward(spec, batch, sequence) * 3.0;
}

Flops CountPalm(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  return SixNPlusAttention(spec, batch, sequence,
                           ActiveParameterCount(spec) - PositionParameters(spec));
}

Flops CountTorchtitan(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  return SixNPlusAttention(spec, batch, sequence,
                           ActiveParameterCount(spec) - LookupParameterCount(spec));
}

Flops CountMegatron(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  const double share = spec.causal ? 0.5 : 1.0;
  return (LinearForwardFlops(spec, batch, sequence, spec.padded_vocab(), /*with_router=*/false) +
          FullAttentionForward(spec, batch, sequence) * share) *
         3.0;
}

Flops CountCausal(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  const AttentionShape attention{batch,         sequence,      spec.heads,
                                 spec.kv_heads, spec.head_dim, spec.causal};
  return (LinearForwardFlops(spec, batch, sequence, spec.vocab_size, /*with_router=*/true) +
          attention.forward_flops() * Real(spec.layers)) *
         3.0;
}

constexpr std::array kConventions = {
    FlopConvention{"palm",
                   "6 N + 12 L n_q d s per token: full attention, N with the embeddings but "
                   "without a position table (PaLM, nanoGPT, llm-foundry)",
                   CountPalm},
    FlopConvention{"megatron",
                   "3 x forward matrix products: half of s^2 where attention is causal, "
                   "padded vocabulary (Megatron-LM)",
                   CountMegatron},
    FlopConvention{"torchtitan",
                   "6 (N - N_embedding) + 12 L n_q d s per token: full attention, a "
                   "tied table counts once, as the head (torchtitan)",
                   CountTorchtitan},
    FlopConvention{"causal",
                   "3 x forward matrix products: exactly s (s + 1) / 2 pairs where "
                   "attention is causal, vocabulary without padding",
                   CountCausal},
};

Flops ForwardFlops(const LayerListSpec& list) {
  Flops flops;
  for (const LayerSpec& layer : list.layers) flops += layer.forward_flops;
  return flops;
}

}  // namespace

std::span<const FlopConvention> FlopConventions() { return kConventions; }

std::vector<std::pair<std::string, Flops>> ModelFlops(const JobSpec& job) {
  const BatchSpec& batch = job.batch;
  std::vector<std::pair<std::string, Flops>> result;
  for (const FlopConvention& convention : kConventions) {
    Flops flops;
    if (const auto* spec = TransformerOf(job)) {
      flops = convention.count(*spec, batch.micro_batch_size, batch.sequence_length);
    } else {
      flops = ForwardFlops(std::get<LayerListSpec>(job.model.network)) * 3.0 *
              Real(batch.micro_batch_size);
    }
    result.emplace_back(convention.name, flops);
  }
  return result;
}

Flops HardwareFlops(const Workload& workload) {
  Flops flops;
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) {
      flops += op.forward.flops;
      for (const ComputeWork& work : op.backward_input) flops += work.flops;
      for (const ComputeWork& work : op.backward_weight) flops += work.flops;
    }
  }
  for (const Rerun& rerun : workload.reruns) {
    for (const Rerun::Step& step : rerun.steps) {
      flops += workload.OperatorAt(step.place).forward.flops;
    }
  }
  return flops;
}

Flops LinearForwardFlops(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence,
                         std::int64_t vocabulary, bool with_router) {
  const double tokens = Real(batch) * Real(sequence);
  const double h = Real(spec.hidden_size);
  double multiply_adds =
      tokens * Real(LayerMatrixParameters(spec, spec.experts.top_k, with_router));
  if (HasVocabularyHead(spec)) multiply_adds += tokens * h * Real(vocabulary);
  if (spec.mlm_head) multiply_adds += tokens * h * h;
  if (spec.pooler) multiply_adds += Real(batch) * h * h;  // the first token only
  if (spec.next_sentence_head) multiply_adds += Real(batch) * h * 2;
  return Flops{2 * multiply_adds};
}

namespace {

std::int64_t CountParameters(const TransformerSpec& spec, std::int64_t experts) {
  const std::int64_t table = spec.padded_vocab() * spec.hidden_size;
  std::int64_t count = table + PositionParameters(spec) + spec.token_types * spec.hidden_size;
  if (spec.embedding_norm) count += NormParameters(spec);
  count += LayerParameters(spec, experts) + HeadParameters(spec);
  if (HasVocabularyHead(spec) && !spec.tied_embeddings) count += table;
  return count;
}

}  // namespace

std::int64_t ParameterCount(const TransformerSpec& spec) {
  return CountParameters(spec, spec.experts.count);
}

std::int64_t ActiveParameterCount(const TransformerSpec& spec) {
  return CountParameters(spec, spec.experts.top_k);
}

std::int64_t LookupParameterCount(const TransformerSpec& spec) {
  const bool table_is_head = HasVocabularyHead(spec) && spec.tied_embeddings;
  const std::int64_t table = table_is_head ? 0 : spec.padded_vocab() * spec.hidden_size;
  return table + PositionParameters(spec) + spec.token_types * spec.hidden_size;
}

bool HasVocabularyHead(const TransformerSpec& spec) { return spec.causal || spec.mlm_head; }

}  // namespace stepsim
