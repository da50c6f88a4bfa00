// Networks as their publishers describe them (Hugging Face config.json of each, or the paper), for
// tests that must not depend on the files in configs/.
#pragma once

#include <string>
#include <vector>

#include "models/spec/job.h"
#include "models/spec/model.h"

namespace stepsim::testing {

struct PublishedModel {
  std::string name;
  TransformerSpec spec;
  std::int64_t parameters = 0;  // as counted by sum(p.numel()) on the released checkpoint
};

inline TransformerSpec Gpt2() {
  TransformerSpec spec;
  spec.layers = 12;
  spec.hidden_size = 768;
  spec.heads = spec.kv_heads = 12;
  spec.head_dim = 64;
  spec.ffn_size = 3072;
  spec.vocab_size = 50257;
  spec.tied_embeddings = true;
  spec.positions = PositionKind::kLearned;
  spec.max_positions = 1024;
  spec.norm = NormKind::kLayerNorm;
  spec.qkv_bias = spec.output_bias = spec.mlp_bias = true;
  spec.dropout = 0.1;
  return spec;
}

// Brown et al. 2020, table 2.1.
inline TransformerSpec Gpt3() {
  TransformerSpec spec = Gpt2();
  spec.layers = 96;
  spec.hidden_size = 12288;
  spec.heads = spec.kv_heads = 96;
  spec.head_dim = 128;
  spec.ffn_size = 4 * 12288;
  spec.max_positions = 2048;
  return spec;
}

inline TransformerSpec Llama3Of8b() {
  TransformerSpec spec;
  spec.layers = 32;
  spec.hidden_size = 4096;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.ffn_size = 14336;
  spec.gated_mlp = true;
  spec.vocab_size = 128256;
  return spec;
}

inline TransformerSpec Llama32Of3b() {
  TransformerSpec spec = Llama3Of8b();
  spec.layers = 28;
  spec.hidden_size = 3072;
  spec.heads = 24;
  spec.ffn_size = 8192;
  spec.tied_embeddings = true;
  return spec;
}

inline TransformerSpec Llama2Of7b() {
  TransformerSpec spec = Llama3Of8b();
  spec.kv_heads = 32;
  spec.ffn_size = 11008;
  spec.vocab_size = 32000;
  return spec;
}

// mistralai/Mixtral-8x7B-v0.1
inline TransformerSpec Mixtral8x7b() {
  TransformerSpec spec = Llama3Of8b();
  spec.vocab_size = 32000;
  spec.experts = {.count = 8, .top_k = 2, .ffn_size = 14336};
  return spec;
}

// Qwen/Qwen3-30B-A3B
inline TransformerSpec Qwen3Of30bA3b() {
  TransformerSpec spec = Llama3Of8b();
  spec.layers = 48;
  spec.hidden_size = 2048;
  spec.kv_heads = 4;
  spec.ffn_size = 6144;
  spec.vocab_size = 151936;
  spec.qk_norm = true;
  spec.experts = {.count = 128, .top_k = 8, .ffn_size = 768};
  return spec;
}

// Qwen/Qwen1.5-MoE-A2.7B: four experts of 60, and a shared one as wide as four.
inline TransformerSpec Qwen15MoeA27b() {
  TransformerSpec spec = Llama3Of8b();
  spec.layers = 24;
  spec.hidden_size = 2048;
  spec.heads = spec.kv_heads = 16;
  spec.ffn_size = 5632;
  spec.vocab_size = 151936;
  spec.qkv_bias = true;
  spec.experts = {
      .count = 60, .top_k = 4, .ffn_size = 1408, .shared_ffn_size = 5632, .shared_gate = true};
  return spec;
}

// BertModel: with the pooler, without the pre-training heads.
inline TransformerSpec BertBase() {
  TransformerSpec spec = Gpt2();
  spec.causal = false;
  spec.vocab_size = 30522;
  spec.max_positions = 512;
  spec.token_types = 2;
  spec.embedding_norm = true;
  spec.final_norm = false;
  spec.pooler = true;
  return spec;
}

// BertForPreTraining: both heads, decoder tied to the word embeddings.
inline TransformerSpec BertBasePretraining() {
  TransformerSpec spec = BertBase();
  spec.mlm_head = spec.next_sentence_head = true;
  return spec;
}

inline std::vector<PublishedModel> PublishedModels() {
  return {{"gpt2", Gpt2(), 124439808},
          {"llama-3-8b", Llama3Of8b(), 8030261248},
          {"llama-3.2-3b", Llama32Of3b(), 3212749824},
          {"llama-2-7b", Llama2Of7b(), 6738415616},
          {"mixtral-8x7b", Mixtral8x7b(), 46702792704},
          {"qwen3-30b-a3b", Qwen3Of30bA3b(), 30532122624},
          {"qwen1.5-moe-a2.7b", Qwen15MoeA27b(), 14315784192},
          {"bert-base", BertBase(), 109482240},
          // 109,482,240 + transform 590,592 + its norm 1,536 + decoder bias 30,522 + next
          // sentence 1,538
          {"bert-base-pretraining", BertBasePretraining(), 110106428},
          // 12 L h^2 + 13 L h, the tables (50257 + 2048) h, the last norm 2 h
          {"gpt3-175b", Gpt3(), 174604259328}};
}

// One GPU, no autocast: parameters in the compute type.
inline JobSpec JobOf(const TransformerSpec& spec, std::int64_t micro_batch, std::int64_t sequence,
                     DType dtype = DType::kBf16) {
  JobSpec job;
  job.model.network = spec;
  job.batch.micro_batch_size = micro_batch;
  job.batch.sequence_length = sequence;
  job.precision.compute = dtype;
  job.precision.parameters = dtype;
  return job;
}

// The same under autocast: fp32 parameters, bf16 products.
inline JobSpec AutocastJobOf(const TransformerSpec& spec, std::int64_t micro_batch,
                             std::int64_t sequence) {
  JobSpec job = JobOf(spec, micro_batch, sequence);
  job.precision.parameters = DType::kFp32;
  return job;
}

}  // namespace stepsim::testing
