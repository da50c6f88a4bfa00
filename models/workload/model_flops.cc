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

// Weights of one layer's matrix products.
std::int64_t LayerMatrixParameters(const TransformerSpec& spec) {
  const std::int64_t h = spec.hidden_size;
  return h * QkvWidth(spec) + QueryWidth(spec) * h + MlpMatrices(spec) * h * spec.ffn_size;
}

std::int64_t LayerParameters(const TransformerSpec& spec) {
  std::int64_t count = LayerMatrixParameters(spec) + 2 * NormParameters(spec);
  if (spec.qkv_bias) count += QkvWidth(spec);
  if (spec.output_bias) count += spec.hidden_size;
  if (spec.mlp_bias) count += (MlpMatrices(spec) - 1) * spec.ffn_size + spec.hidden_size;
  return count;
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
  return SixNPlusAttention(spec, batch, sequence, ParameterCount(spec) - PositionParameters(spec));
}

Flops CountTorchtitan(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  return SixNPlusAttention(spec, batch, sequence,
                           ParameterCount(spec) - LookupParameterCount(spec));
}

Flops CountMegatron(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  const double share = spec.causal ? 0.5 : 1.0;
  return (LinearForwardFlops(spec, batch, sequence, spec.padded_vocab()) +
          FullAttentionForward(spec, batch, sequence) * share) *
         3.0;
}

Flops CountCausal(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  const AttentionShape attention{batch,         sequence,      spec.heads,
                                 spec.kv_heads, spec.head_dim, spec.causal};
  return (LinearForwardFlops(spec, batch, sequence, spec.vocab_size) +
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
                         std::int64_t vocabulary) {
  const double tokens = Real(batch) * Real(sequence);
  const double h = Real(spec.hidden_size);
  double multiply_adds = tokens * Real(spec.layers) * Real(LayerMatrixParameters(spec));
  if (HasVocabularyHead(spec)) multiply_adds += tokens * h * Real(vocabulary);
  if (spec.mlm_head) multiply_adds += tokens * h * h;
  if (spec.pooler) multiply_adds += Real(batch) * h * h;  // the first token only
  if (spec.next_sentence_head) multiply_adds += Real(batch) * h * 2;
  return Flops{2 * multiply_adds};
}

std::int64_t ParameterCount(const TransformerSpec& spec) {
  const std::int64_t table = spec.padded_vocab() * spec.hidden_size;
  std::int64_t count = table + PositionParameters(spec) + spec.token_types * spec.hidden_size;
  if (spec.embedding_norm) count += NormParameters(spec);
  count += spec.layers * LayerParameters(spec) + HeadParameters(spec);
  if (HasVocabularyHead(spec) && !spec.tied_embeddings) count += table;
  return count;
}

std::int64_t LookupParameterCount(const TransformerSpec& spec) {
  const bool table_is_head = HasVocabularyHead(spec) && spec.tied_embeddings;
  const std::int64_t table = table_is_head ? 0 : spec.padded_vocab() * spec.hidden_size;
  return table + PositionParameters(spec) + spec.token_types * spec.hidden_size;
}

bool HasVocabularyHead(const TransformerSpec& spec) { return spec.causal || spec.mlm_head; }

}  // namespace stepsim
