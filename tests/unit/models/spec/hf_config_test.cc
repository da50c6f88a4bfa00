#include "models/spec/hf_config.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>

#include "models/spec/load_job.h"
#include "models/spec/model.h"
#include "sim/config/read_config.h"

namespace stepsim {
namespace {

ModelSpec Load(std::string_view text, const std::string& file = "config.json") {
  return LoadModelText(text, file);
}
TransformerSpec Spec(std::string_view text) {
  return std::get<TransformerSpec>(Load(text).network);
}
std::string ErrorOf(std::string_view text) {
  try {
    Load(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

// As published with meta-llama/Llama-3.2-3B, with keys that change no shape.
constexpr std::string_view kLlama = R"({
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 128000,
  "eos_token_id": [128001, 128008],
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 3072,
  "intermediate_size": 8192,
  "max_position_embeddings": 131072,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 24,
  "num_hidden_layers": 28,
  "num_key_value_heads": 8,
  "rope_scaling": {"factor": 32.0, "rope_type": "llama3"},
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "vocab_size": 128256
})";

TEST(HfConfig, Llama) {
  const TransformerSpec spec = Spec(kLlama);
  EXPECT_EQ(spec.layers, 28);
  EXPECT_EQ(spec.hidden_size, 3072);
  EXPECT_EQ(spec.heads, 24);
  EXPECT_EQ(spec.kv_heads, 8);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.ffn_size, 8192);
  EXPECT_EQ(spec.vocab_size, 128256);
  EXPECT_TRUE(spec.gated_mlp);
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_TRUE(spec.causal);
  EXPECT_FALSE(spec.qkv_bias);
  EXPECT_EQ(spec.positions, PositionKind::kRotary);
  EXPECT_EQ(spec.norm, NormKind::kRmsNorm);
}

// LlamaConfig: tie_word_embeddings False, attention_bias False, key and value heads like heads.
TEST(HfConfig, WhatTheLibraryAssumesForLlama) {
  const TransformerSpec spec = Spec(
      R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": null, "intermediate_size": 11008,
          "vocab_size": 32000})");
  EXPECT_FALSE(spec.tied_embeddings);
  EXPECT_FALSE(spec.qkv_bias);
  EXPECT_EQ(spec.kv_heads, 32);
  EXPECT_EQ(spec.head_dim, 128);  // 4096 / 32
}

// Qwen2: the query, key and value projections have a bias, the output projection has none.
TEST(HfConfig, Qwen2) {
  const TransformerSpec spec = Spec(
      R"({"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
          "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
          "vocab_size": 151936, "tie_word_embeddings": true})");
  EXPECT_TRUE(spec.qkv_bias);
  EXPECT_FALSE(spec.output_bias);
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_TRUE(spec.tied_embeddings);
}

// GPT2Config: n_inner null means 4 x n_embd, tied embeddings, biases everywhere.
TEST(HfConfig, Gpt2) {
  const TransformerSpec spec = Spec(
      R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768, "n_head": 12,
          "n_layer": 12, "n_positions": 1024, "n_inner": null, "resid_pdrop": 0.1,
          "vocab_size": 50257})");
  EXPECT_EQ(spec.ffn_size, 3072);
  EXPECT_EQ(spec.max_positions, 1024);
  EXPECT_EQ(spec.positions, PositionKind::kLearned);
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_TRUE(spec.qkv_bias && spec.output_bias && spec.mlp_bias);
  EXPECT_FALSE(spec.gated_mlp);
  EXPECT_EQ(spec.dropout, 0.1);
}

// GPTNeoXConfig: tie_word_embeddings False, attention_bias True.
TEST(HfConfig, GptNeox) {
  const TransformerSpec spec = Spec(
      R"({"architectures": ["GPTNeoXForCausalLM"], "hidden_size": 6144, "num_hidden_layers": 44,
          "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432})");
  EXPECT_FALSE(spec.tied_embeddings);
  EXPECT_TRUE(spec.qkv_bias);
  EXPECT_EQ(spec.positions, PositionKind::kRotary);
  EXPECT_EQ(spec.norm, NormKind::kLayerNorm);
}

TEST(HfConfig, BertByItsClass) {
  const auto bert = [](const std::string& architectures) {
    return Spec(R"({"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12,
                    "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522,
                    "max_position_embeddings": 512, "type_vocab_size": 2)" +
                architectures + "}");
  };
  const TransformerSpec model = bert("");
  EXPECT_TRUE(model.pooler);
  EXPECT_FALSE(model.mlm_head);
  EXPECT_FALSE(model.causal);
  EXPECT_EQ(model.token_types, 2);
  EXPECT_TRUE(model.embedding_norm);
  EXPECT_FALSE(model.final_norm);
  const TransformerSpec masked = bert(R"(, "architectures": ["BertForMaskedLM"])");
  EXPECT_FALSE(masked.pooler);
  EXPECT_TRUE(masked.mlm_head);
  const TransformerSpec full = bert(R"(, "architectures": ["BertForPreTraining"])");
  EXPECT_TRUE(full.pooler && full.mlm_head && full.next_sentence_head);
}

TEST(HfConfig, Names) {
  const auto name = [](const std::string& file, const std::string& more) {
    return Load(R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1,
                    "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9)" +
                    more + "}",
                file)
        .name;
  };
  EXPECT_EQ(name("models/Llama-3-8B/config.json", ""), "Llama-3-8B");
  EXPECT_EQ(name("models/tiny.json", ""), "tiny");
  EXPECT_EQ(name("config.json", ""), "llama");
  EXPECT_EQ(name("config.json", R"(, "_name_or_path": "a/b")"), "a/b");
}

// The files of mistralai/Mixtral-8x7B-v0.1 and Qwen/Qwen1.5-MoE-A2.7B, shortened.
TEST(HfConfig, MixturesOfExperts) {
  const std::string mixtral =
      R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
          "num_experts_per_tok": 2, "num_local_experts": 8, "vocab_size": 32000})";
  const auto first = std::get<TransformerSpec>(LoadModelText(mixtral, "config.json").network);
  EXPECT_EQ(first.experts.count, 8);
  EXPECT_EQ(first.experts.top_k, 2);
  EXPECT_EQ(first.experts.ffn_size, 14336);  // intermediate_size
  const std::string qwen =
      R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
          "num_attention_heads": 16, "num_hidden_layers": 24, "moe_intermediate_size": 1408,
          "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60,
          "decoder_sparse_step": 1, "vocab_size": 151936})";
  const auto second = std::get<TransformerSpec>(LoadModelText(qwen, "config.json").network);
  EXPECT_EQ(second.experts.ffn_size, 1408);
  EXPECT_EQ(second.experts.shared_ffn_size, 5632);
  EXPECT_TRUE(second.experts.shared_gate);
  EXPECT_TRUE(second.qkv_bias);
}

TEST(HfConfig, Refusals) {
  EXPECT_EQ(ErrorOf(R"({"model_type": "deepseek_v3", "kv_lora_rank": 512})"),
            "config.json:1:31: kv_lora_rank: found '512', allowed: networks without it "
            "(multi-latent attention is not supported)");
  EXPECT_EQ(ErrorOf(R"({"model_type": "qwen3_moe", "mlp_only_layers": [3]})"),
            "config.json:1:29: mlp_only_layers: found some, allowed: an empty list; leading ones: "
            "a model file with transformer.experts.dense_layers");
  EXPECT_EQ(ErrorOf(R"({"model_type": "mistrl"})"),
            "config.json:1:2: model_type: found 'mistrl', allowed: llama, mistral, qwen2, qwen3, "
            "mixtral, qwen2_moe, qwen3_moe, gpt2, gpt_neox, bert, roberta; did you mean "
            "'mistral'?");
  EXPECT_EQ(ErrorOf(R"({"architectures": ["T5ForConditionalGeneration"]})"),
            "config.json:1:2: model_type: found 'T5ForConditionalGeneration', allowed: llama, "
            "mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, gpt2, gpt_neox, bert, roberta");
  EXPECT_EQ(ErrorOf(R"({"model_type": "llama", "num_local_experts": 8})"),
            "config.json:1:25: num_local_experts: found '8', allowed: networks without experts "
            "in this family (with: mixtral, qwen2_moe, qwen3_moe)");
  EXPECT_EQ(ErrorOf(R"({"model_type": "llama", "architectures": ["LlamaForTokenClassification"]})"),
            "config.json:1:42: architectures: found 'LlamaForTokenClassification', allowed: "
            "LlamaForCausalLM");
}

TEST(HfConfig, EveryProblemAtOnce) {
  EXPECT_EQ(
      ErrorOf("{\"model_type\": \"llama\",\n\"hidden_size\": \"4096\",\n"
              "\"num_hidden_layers\": 0,\n\"num_attention_heads\": 2.5,\n"
              "\"vocab_size\": 9, \"tie_word_embeddings\": 1}"),
      "config.json:3:22: num_hidden_layers: found '0', allowed: a whole number of at least 1\n"
      "config.json:2:16: hidden_size: found '4096' in quotes, allowed: a whole number of at "
      "least 1\n"
      "config.json:4:24: num_attention_heads: found '2.5', allowed: a whole number of at "
      "least 1\n"
      "config.json:1:1: intermediate_size: missing, allowed: a whole number of at least 1\n"
      "config.json:5:41: tie_word_embeddings: found '1', allowed: true, false");
}

TEST(HfConfig, AbsurdSizesMeetTheSameLimitsAsOurFiles) {
  EXPECT_EQ(ErrorOf(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1e12,
                        "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9})"),
            "config.json:1:65: transformer.layers: found '1e12', allowed: a whole number from 1 to "
            "10000");
}

}  // namespace
}  // namespace stepsim
