#include "models/workload/local_transformer.h"

#include <algorithm>
#include <variant>

namespace stepsim {

// Megatron-LM's rule: make_vocab_size_divisible_by x tensor parallel size.
std::int64_t PaddedVocabulary(const TransformerSpec& spec, std::int64_t tensor_ranks) {
  const std::int64_t multiple = spec.vocab_multiple * tensor_ranks;
  return (spec.vocab_size + multiple - 1) / multiple * multiple;
}

LocalTransformer LocalTransformerOf(const JobSpec& job) {
  LocalTransformer local;
  local.spec = std::get<TransformerSpec>(job.model.network);
  local.tensor_ranks = job.plan.tensor_parallel;
  local.vocabulary = PaddedVocabulary(local.spec, local.tensor_ranks);
  local.spec.vocab_size = local.vocabulary / local.tensor_ranks;
  local.spec.vocab_multiple = 1;
  local.spec.heads /= local.tensor_ranks;
  local.spec.kv_heads = std::max<std::int64_t>(local.spec.kv_heads / local.tensor_ranks, 1);
  local.spec.ffn_size /= local.tensor_ranks;
  local.spec.experts.shared_ffn_size /= local.tensor_ranks;
  local.has_sequence_parallel = job.plan.sequence_parallel();
  local.regathers_input = local.has_sequence_parallel && RegathersInput(job);
  local.batch = job.batch.micro_batch_size;
  local.sequence = job.batch.sequence_length / job.plan.context_parallel;
  local.tokens = local.batch * local.sequence;
  local.stream_tokens =
      local.has_sequence_parallel ? local.tokens / local.tensor_ranks : local.tokens;
  return local;
}

}  // namespace stepsim
