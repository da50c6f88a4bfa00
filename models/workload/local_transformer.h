// What does one tensor- and context-parallel rank hold of a transformer? Its part of the heads, of
// the MLP's width and of the vocabulary, and its tokens.
//
//   llama-3-8b, tensor_parallel 4:  8 heads, 2 kv_heads, ffn 3584, 32064 rows of the vocabulary
//   kv_heads 2, tensor_parallel 8:  1 kv_head, on four ranks each
#pragma once

#include <cstdint>

#include "models/spec/job.h"

namespace stepsim {

struct LocalTransformer {
  // A network whose heads, MLP width and vocabulary are those of this rank: RegisterModules makes
  // the local tensors of it. Row-parallel biases and norms are whole.
  // Of experts only the shared one: how the others are dealt out says ExpertShare.
  TransformerSpec spec;
  std::int64_t tensor_ranks = 1;
  std::int64_t vocabulary = 1;  // padded rows over all ranks
  std::int64_t batch = 1;
  std::int64_t sequence = 1;       // of one sample, after context parallelism has cut it
  std::int64_t tokens = 1;         // batch x sequence: of attention and the products
  std::int64_t stream_tokens = 1;  // of norms, dropouts, residuals: cut by sequence parallelism
  bool has_sequence_parallel = false;
  bool regathers_input = true;  // of column-parallel products, in backward
};

// Rows of the vocabulary over all ranks: padded so that every rank has equally many.
std::int64_t PaddedVocabulary(const TransformerSpec& spec, std::int64_t tensor_ranks);

// REQUIRES: a transformer whose heads and MLP width the degree divides.
LocalTransformer LocalTransformerOf(const JobSpec& job);

}  // namespace stepsim
