#include "models/memory/formula_parameters.h"

#include <algorithm>

namespace stepsim {
namespace {

double Real(std::int64_t value) { return static_cast<double>(value); }

double Elements(const std::vector<Weight>& weights) {
  double sum = 0;
  for (const Weight& weight : weights) sum += weight.elements();
  return sum;
}

// Norms' weights, and biases where the model has them; small, counted for the identities of tests.
double Vectors(const FormulaJob& job) {
  const FormulaModel& m = job.model;
  const double h = Real(m.hidden), t = Real(job.tensor_parallel);
  if (m.latent) return 2 * h + Real(m.latent->query_rank + m.latent->key_value_rank);
  if (m.is_gated) return 2 * h;
  const double head = h / Real(m.heads);
  return 4 * h + (h + 2 * Real(m.kv_heads) * head) / t + h + Real(m.ffn) / t + h;
}

}  // namespace

StageLayers LayersOfStage(const FormulaJob& job, std::int64_t stage) {
  const std::int64_t p = job.pipeline_parallel;
  StageLayers result;
  result.has_embedding = stage == 0;
  result.has_head = stage == p - 1;
  const std::int64_t blocks = job.model.layers + (job.counts_ends_as_layers ? 2 : 0);
  std::int64_t first = stage * (blocks / p) + std::min(stage, blocks % p);
  std::int64_t last = first + blocks / p + (stage < blocks % p ? 1 : 0);
  if (job.counts_ends_as_layers) {
    first = std::max<std::int64_t>(first - 1, 0);
    last = std::min(last - 1, job.model.layers);
  }
  const std::int64_t dense = job.model.experts ? job.model.experts->dense_layers : job.model.layers;
  result.dense = std::max<std::int64_t>(0, std::min(last, dense) - first);
  result.experts = last - first - result.dense;
  return result;
}

std::vector<Weight> AttentionWeights(const FormulaJob& job) {
  const FormulaModel& m = job.model;
  const double h = Real(m.hidden), t = Real(job.tensor_parallel), a = Real(m.heads);
  if (!m.latent) {
    const double head = h / a;
    return {{(a + 2 * Real(m.kv_heads)) * head / t, h}, {h, h / t}};
  }
  const LatentAttention& mla = *m.latent;  // down projections are not split
  const double query = a * Real(mla.head + mla.rotary_head) / t;
  std::vector<Weight> weights;
  if (mla.query_rank > 0) {
    weights = {{Real(mla.query_rank), h}, {query, Real(mla.query_rank)}};
  } else {
    weights = {{query, h}};
  }
  weights.push_back({Real(mla.key_value_rank + mla.rotary_head), h});
  weights.push_back({a * Real(mla.head + mla.value_head) / t, Real(mla.key_value_rank)});
  weights.push_back({h, a * Real(mla.value_head) / t});
  return weights;
}

std::vector<Weight> MlpWeights(const FormulaJob& job) {
  const double h = Real(job.model.hidden), f = Real(job.model.ffn) / Real(job.tensor_parallel);
  return {{(job.model.is_gated ? 2 : 1) * f, h}, {h, f}};
}

std::vector<Weight> SharedWeights(const FormulaJob& job) {
  if (!job.model.experts) return {};
  const double h = Real(job.model.hidden);
  std::vector<Weight> weights = {{Real(job.model.experts->experts), h}};
  if (const double f = Real(job.model.experts->shared_ffn) / Real(job.tensor_parallel); f > 0) {
    weights.push_back({2 * f, h});
    weights.push_back({h, f});
  }
  return weights;
}

std::vector<Weight> ExpertWeights(const FormulaJob& job) {
  if (!job.model.experts) return {};
  const double h = Real(job.model.hidden), f = Real(job.model.experts->ffn);
  const double count = Real(job.model.experts->experts) / Real(job.expert_parallel);
  return {{2 * f, h, count}, {h, f, count}};
}

double VocabularyPerGpu(const FormulaJob& job) {
  const std::int64_t t = job.tensor_parallel;
  if (job.states == StateLayout::kFsdp2 || job.states == StateLayout::kFp32Ddp) {
    return Real(job.model.vocab) / Real(t);
  }
  const std::int64_t unit = 128 * t;
  return Real((job.model.vocab + unit - 1) / unit * unit / t);
}

StageParameters ParametersOfStage(const FormulaJob& job, std::int64_t stage) {
  const StageLayers layers = LayersOfStage(job, stage);
  const double attention = Elements(AttentionWeights(job)) + Vectors(job);
  const double mlp = Elements(MlpWeights(job)), shared = Elements(SharedWeights(job));
  StageParameters result;
  result.dense =
      Real(layers.dense) * (attention + mlp) + Real(layers.experts) * (attention + shared);
  result.experts = Real(layers.experts) * Elements(ExpertWeights(job));
  result.layer = attention + (layers.dense > 0 ? mlp : shared);
  const double h = Real(job.model.hidden), matrix = VocabularyPerGpu(job) * h;
  if (layers.has_embedding) result.embedding = matrix;
  // A tied head is the embedding itself where both are on one GPU, else a copy of it.
  if (layers.has_head && !(job.model.is_tied && layers.has_embedding)) result.head = matrix;
  result.dense += result.embedding + result.head;
  if (layers.has_head) result.dense += (job.model.is_gated ? 1 : 2) * h;  // the last norm
  return result;
}

double DenseShards(const FormulaJob& job) {
  return Real(job.data_parallel) * Real(job.context_parallel);
}

double ExpertShards(const FormulaJob& job) {
  const double peers = DenseShards(job) * Real(job.tensor_parallel);
  return std::max(1.0, peers / Real(job.expert_parallel));
}

double PlaceholderBytes(const FormulaJob& job, std::int64_t stage) {
  const bool is_fused =
      job.kernels == LayerKernels::kFused &&
      (job.states == StateLayout::kMegatron || job.states == StateLayout::kMegatronDistributed);
  if (!is_fused) return 0;
  const StageLayers layers = LayersOfStage(job, stage);
  std::vector<Weight> weights = AttentionWeights(job);
  const auto add = [&](const std::vector<Weight>& more) {
    weights.insert(weights.end(), more.begin(), more.end());
  };
  if (layers.dense > 0) add(MlpWeights(job));
  if (layers.experts > 0) {
    const std::vector<Weight> shared = SharedWeights(job);
    // The router's product is an ordinary one: its gradient is no placeholder.
    add({shared.begin() + 1, shared.end()});
    add(ExpertWeights(job));
  }
  if (layers.has_head) add({{VocabularyPerGpu(job), Real(job.model.hidden)}});
  double bytes = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto same = [&](const Weight& other) {
      return other.rows == weights[i].rows && other.columns == weights[i].columns;
    };
    const auto end = weights.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(weights.begin(), end, same)) bytes += 2 * weights[i].rows * weights[i].columns;
  }
  return bytes;
}

}  // namespace stepsim
