// Expectations are what Megatron-LM documents for each argument, and how it derives those that are
// not given (megatron/training/arguments.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/imported.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using testing::Import;
using testing::Joined;
using testing::ValueOf;

const std::string kSizes =
    "--num-layers 2 --hidden-size 96 --num-attention-heads 6 --seq-length 16\n"
    "--max-position-embeddings 16 --micro-batch-size 2 --tokenizer-type GPT2BPETokenizer\n";

// Two nodes of four GPUs.
Import Megatron(const std::string& more, const std::string& sizes = kSizes) {
  return {.framework = "megatron", .text = sizes + more, .file = "run.sh"};
}
TransformerSpec Network(const std::string& more, const std::string& sizes = kSizes) {
  return std::get<TransformerSpec>(Megatron(more, sizes).Load().job.model.network);
}

TEST(Megatron, TheDefaultNetworkIsGpt) {
  const TransformerSpec gpt = Network("");
  EXPECT_EQ(gpt.layers, 2);
  EXPECT_EQ(gpt.hidden_size, 96);
  EXPECT_EQ(gpt.heads, 6);
  EXPECT_EQ(gpt.kv_heads, 6);
  EXPECT_EQ(gpt.head_dim, 16);
  EXPECT_EQ(gpt.ffn_size, 4 * 96);
  EXPECT_FALSE(gpt.gated_mlp);
  EXPECT_EQ(gpt.padded_vocab(), 50304);  // 50257 in multiples of 128
  EXPECT_TRUE(gpt.tied_embeddings);
  EXPECT_EQ(gpt.positions, PositionKind::kLearned);
  EXPECT_EQ(gpt.max_positions, 16);
  EXPECT_EQ(gpt.norm, NormKind::kLayerNorm);
  EXPECT_TRUE(gpt.qkv_bias && gpt.output_bias && gpt.mlp_bias && gpt.causal);
  EXPECT_EQ(gpt.dropout, 0.1);
}

TEST(Megatron, ALlama) {
  const TransformerSpec llama = Network(
      "--swiglu --group-query-attention --num-query-groups 2 --normalization RMSNorm "
      "--position-embedding-type rope --disable-bias-linear --add-qkv-bias "
      "--untie-embeddings-and-output-weights --hidden-dropout 0 --kv-channels 32 "
      "--make-vocab-size-divisible-by 1 --vocab-size 100");
  EXPECT_TRUE(llama.gated_mlp);
  EXPECT_EQ(llama.ffn_size, 256);  // int(4 x 96 x 2/3 / 64) x 64
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.head_dim, 32);
  EXPECT_EQ(llama.padded_vocab(), 100);
  EXPECT_EQ(llama.norm, NormKind::kRmsNorm);
  EXPECT_EQ(llama.positions, PositionKind::kRotary);
  EXPECT_TRUE(llama.qkv_bias);
  EXPECT_FALSE(llama.output_bias || llama.mlp_bias || llama.tied_embeddings);
  EXPECT_EQ(llama.dropout, 0);
}

TEST(Megatron, Vocabularies) {
  // The null tokenizer has one word more: the end of a document.
  EXPECT_EQ(Network("--tokenizer-type NullTokenizer --vocab-size 128").padded_vocab(), 256);
  EXPECT_EQ(Network("--vocab-size 128").padded_vocab(), 128);
  EXPECT_EQ(Network("--padded-vocab-size 77").padded_vocab(), 77);
  Import import = Megatron("--tokenizer-type HuggingFaceTokenizer");
  EXPECT_THAT(import.Errors(), HasSubstr("does not say: model.transformer.vocab_size "
                                         "(HuggingFaceTokenizer knows it); give it"));
  import.sets.emplace_back("model.transformer.vocab_size=1000");
  EXPECT_EQ(std::get<TransformerSpec>(import.Load().job.model.network).padded_vocab(), 1024);
}

TEST(Megatron, DataParallelKnobs) {
  const ResolvedJob job =
      Megatron(
          "--bf16 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
          "--ddp-bucket-size 5000000 --grad-reduce-in-bf16 --ddp-average-in-collective "
          "--num-distributed-optimizer-instances 2")
          .Load();
  const MegatronPlan& plan = job.job.plan.megatron;
  EXPECT_EQ(job.job.plan.strategy, "megatron");
  EXPECT_TRUE(plan.use_distributed_optimizer && plan.overlap_grad_reduce &&
              plan.overlap_param_gather && plan.average_in_collective);
  EXPECT_EQ(plan.ddp_bucket_size, 5'000'000);
  EXPECT_EQ(plan.grad_reduce_in_fp32, false);
  EXPECT_EQ(plan.num_distributed_optimizer_instances, 2);
  EXPECT_EQ(job.job.precision.compute, DType::kBf16);
  EXPECT_EQ(job.job.kernels, KernelMode::kFused);
  EXPECT_EQ(job.job.optimizer_impl, OptimizerImpl::kFused);
}

TEST(Megatron, GlobalBatchMeansAccumulation) {
  const ResolvedJob job = Megatron("--global-batch-size 64").Load();
  EXPECT_EQ(job.job.batch.micro_batch_size, 2);
  EXPECT_EQ(ValueOf(job, "batch.gradient_accumulation_steps"), "4 (batch.global_batch_size)");
  EXPECT_THAT(Megatron("--global-batch-size 20").Errors(),
              HasSubstr("run.sh:3:1: batch.global_batch_size: global_batch_size (20) must be a "
                        "multiple of micro_batch_size x GPUs (2 x 8); nearest valid: 16, 32"));
}

TEST(Megatron, TheClusterOfTorchrun) {
  Import import = Megatron("torchrun --nproc_per_node 2 --nnodes=2 pretrain_gpt.py\n");
  import.sets = {"hardware=box"};
  const ResolvedJob job = import.Load();
  EXPECT_EQ(ValueOf(job, "nodes"), "2 (run.sh:3)");
  EXPECT_EQ(job.job.gpus(), 4);
}

TEST(Megatron, EnvironmentThatMatters) {
  const ResolvedJob job = Megatron(
                              "export CUDA_DEVICE_MAX_CONNECTIONS=1\nNCCL_PROTO=Simple\n"
                              "NCCL_DEBUG=INFO\nNCCL_UNHEARD_OF=1\nNAME=x\n")
                              .Load();
  EXPECT_EQ(job.job.host.max_connections, 1);
  EXPECT_EQ(ValueOf(job, "collectives.protocol"), "Simple (run.sh:4)");
  EXPECT_THAT(Joined(job.warnings), HasSubstr("NCCL_UNHEARD_OF (line 6"));
}

TEST(Megatron, RecomputesActivations) {
  const auto recompute = [](const std::string& more) {
    return Megatron(more).Load().job.recompute;
  };
  EXPECT_FALSE(recompute("").IsOn());
  EXPECT_TRUE(recompute("--recompute-activations").IsSelective(RecomputePolicy::kModules));
  const RecomputeSpec full =
      recompute("--recompute-granularity full --recompute-method block --recompute-num-layers 2");
  EXPECT_TRUE(full.IsFull());
  EXPECT_EQ(full.method, RecomputeMethod::kBlock);
  EXPECT_EQ(full.num_layers, 2);
  const RecomputeSpec modules =
      recompute("--recompute-granularity selective --recompute-modules layernorm mlp");
  EXPECT_TRUE(modules.modules.layernorm && modules.modules.mlp);
  EXPECT_FALSE(modules.modules.core_attn);
  EXPECT_THAT(Megatron("--recompute-activations --recompute-modules moe_act").Errors(),
              HasSubstr("recompute-modules: found 'moe_act', allowed: core_attn, mlp, layernorm"));
}

TEST(Megatron, AttentionKernels) {
  const auto attention = [](const std::string& more) {
    return Megatron(more).Load().job.attention;
  };
  EXPECT_EQ(attention(""), AttentionKind::kFlash);
  EXPECT_EQ(attention("--transformer-impl local"), AttentionKind::kUnfused);
  EXPECT_EQ(attention("--transformer-impl local --use-flash-attn"), AttentionKind::kFlash);
  EXPECT_EQ(attention("--attention-backend unfused"), AttentionKind::kUnfused);
}

TEST(Megatron, RefusesWhatIsNotSimulated) {
  EXPECT_THAT(Megatron("--fp8-format hybrid").Errors(), HasSubstr("fp8"));
  EXPECT_THAT(Megatron("--optimizer-cpu-offload").Errors(), HasSubstr("offloading"));
  EXPECT_EQ(Megatron("--tensor-model-parallel-size 1 --sequence-parallel").Errors(), "");
  EXPECT_THAT(Megatron("--distribute-saved-activations").Errors(),
              HasSubstr("--sequence-parallel cuts them anyway"));
  EXPECT_THAT(Megatron("--variable-seq-lengths").Errors(),
              HasSubstr("here every sequence has --seq-length"));
  // Keys of the plan, whose rules name what is not modelled.
  EXPECT_THAT(Megatron("--defer-embedding-wgrad-compute --pipeline-model-parallel-size 2 "
                       "--global-batch-size 16")
                  .Errors(),
              HasSubstr("run.sh:3:1: plan.pipeline.defer_embedding_wgrad_compute: found 'true', "
                        "which is not modelled"));
  EXPECT_THAT(Megatron("--overlap-param-gather-with-optimizer-step").Errors(),
              HasSubstr("beside the optimizer step of the others"));
}

TEST(Megatron, NoKeyPassesSilently) {
  const ResolvedJob job =
      Megatron("--overlap-grad-reduec --log-interval 5 --lr 1e-4 --unheard-of 3").Load();
  EXPECT_THAT(Joined(job.warnings),
              HasSubstr("run.sh: not understood and left out: overlap-grad-reduec (line 3; nearest "
                        "known: overlap-grad-reduce), unheard-of (line 3)"));
  EXPECT_THAT(Joined(job.notes), HasSubstr("logging (log-interval); learning rate (lr)"));
}

TEST(Megatron, SaysWhatIsMissing) {
  EXPECT_THAT(
      Megatron("--bf16", "").Errors(),
      HasSubstr("does not say: model, batch.sequence_length, batch.micro_batch_size; give"));
  EXPECT_THAT(Megatron("--num-layers 2 --hidden-size 8", "").Errors(),
              HasSubstr("num-attention-heads: missing, allowed: a whole number"));
  EXPECT_THAT(Megatron("--global-batch-size $GBS --load $CKPT").Errors(),
              HasSubstr("run.sh:3:21: global-batch-size: found '$GBS', which this file does not "
                        "set, allowed: a value"));
  EXPECT_THAT(Megatron("--bf16 --fp16").Errors(), HasSubstr("one of the two"));
  EXPECT_THAT(Megatron("",
                       "--num-layers two --hidden-size 8 --num-attention-heads 2 --seq-length 4 "
                       "--micro-batch-size 1 --vocab-size 9 --max-position-embeddings 4")
                  .Errors(),
              HasSubstr("run.sh:1:14: model.transformer.layers: found 'two'"));
}

// arguments.py: sequence parallelism only when given; chunks = layers / ranks / layers per chunk.
TEST(Megatron, SpreadsTheModel) {
  const std::string tensor = "--tensor-model-parallel-size 2 --use-tp-pp-dp-mapping ";
  EXPECT_FALSE(Megatron(tensor).Load().job.plan.sequence_parallel());
  const std::string sizes =
      "--num-layers 8 --hidden-size 96 --num-attention-heads 6 --seq-length 16\n"
      "--max-position-embeddings 16 --micro-batch-size 1 --tokenizer-type GPT2BPETokenizer\n";
  const JobSpec job = Megatron(tensor +
                                   "--sequence-parallel --pipeline-model-parallel-size 2 "
                                   "--num-layers-per-virtual-pipeline-stage 2 "
                                   "--global-batch-size 16 --clip-grad 0",
                               sizes)
                          .Load()
                          .job;
  EXPECT_TRUE(job.plan.sequence_parallel());
  EXPECT_EQ(job.plan.pipeline.virtual_stages, 2);       // 8 / 2 / 2
  EXPECT_EQ(job.batch.gradient_accumulation_steps, 8);  // 16 / (1 x 2 replicas)
  EXPECT_EQ(job.plan.mesh_order, "tp-cp-pp-dp");
  EXPECT_EQ(job.plan.clip_gradients, false);
}

// Eight layers on a pipeline of two, four or eight stages.
TEST(Megatron, SplitsTheLayers) {
  const std::string sizes =
      "--num-layers 8 --hidden-size 96 --num-attention-heads 6 --seq-length 16\n"
      "--max-position-embeddings 16 --micro-batch-size 1 --tokenizer-type GPT2BPETokenizer\n"
      "--pipeline-model-parallel-size 2 --global-batch-size 16 ";
  const struct {
    std::string arguments;
    std::vector<double> layers;
    std::int64_t chunks;
  } kCases[] = {
      {"--decoder-first-pipeline-num-layers 3", {3, 5}, 1},
      {"--decoder-last-pipeline-num-layers 2", {6, 2}, 1},
      {"--decoder-first-pipeline-num-layers 2 --num-virtual-stages-per-pipeline-rank 2",
       {1, 3, 1, 3},
       2},
      {"--num-layers 7 --account-for-embedding-in-pipeline-split", {3, 4}, 1},
      {"--num-layers 7 --account-for-loss-in-pipeline-split "
       "--num-layers-per-virtual-pipeline-stage 2",
       {2, 2, 2, 1},
       2},
      {"--pipeline-model-parallel-layout 'Et|(ttt|)*2,tL'", {1, 3, 3, 1}, 2},
  };
  for (const auto& test : kCases) {
    const ResolvedJob job = Megatron(test.arguments, sizes).Load();
    EXPECT_EQ(job.job.plan.pipeline.layers_per_stage, test.layers) << test.arguments;
    EXPECT_EQ(std::max<std::int64_t>(job.job.plan.pipeline.virtual_stages, 1), test.chunks);
  }
  // Both ends: chunks are counted with them, (6 + 2) / 2 / 2.
  const PipelinePlan ends = Megatron(
                                "--num-layers 6 --account-for-embedding-in-pipeline-split "
                                "--account-for-loss-in-pipeline-split "
                                "--num-layers-per-virtual-pipeline-stage 2",
                                sizes)
                                .Load()
                                .job.plan.pipeline;
  EXPECT_EQ(ends.balance, StageBalance::kEnds);
  EXPECT_EQ(ends.virtual_stages, 2);
}

TEST(Megatron, RefusesSplitsThatMegatronRefuses) {
  const std::string pipeline = "--pipeline-model-parallel-size 2 --global-batch-size 16 ";
  const struct {
    std::string arguments, problem;
  } kCases[] = {
      {"--num-layers-per-virtual-pipeline-stage 1 --decoder-first-pipeline-num-layers 1",
       "num-layers-per-virtual-pipeline-stage: found beside --decoder-first-pipeline-num-layers, "
       "allowed: --num-virtual-stages-per-pipeline-rank alone says the chunks"},
      {"--num-layers-per-virtual-pipeline-stage 3",
       "found 3, allowed: a number that divides the layers of a rank (2 / 2)"},
      {"--decoder-first-pipeline-num-layers 1 --account-for-loss-in-pipeline-split",
       "found beside --account-for-loss-in-pipeline-split, allowed: one of the two"},
      {"--pipeline-model-parallel-layout 'Et|tL' --account-for-loss-in-pipeline-split",
       "found beside --pipeline-model-parallel-layout, allowed: one of the two"},
      {"--pipeline-model-parallel-layout 'Et|t|L'",
       "found 3 stages, allowed: a multiple of the 2 pipeline ranks"},
      {"--pipeline-model-parallel-layout 'Et|txL'",
       "run.sh:3:90: pipeline-model-parallel-layout: "
       "found 'x'"},
      {"--decoder-first-pipeline-num-layers 0", "found 0, allowed: a whole number from 1 to the 2"},
      {"--decoder-last-pipeline-num-layers x", "found 'x', allowed: a whole number"},
      {"--account-for-loss-in-pipeline-split", "found 3 layers for the 2 other pipeline ranks"},
      {"--num-virtual-stages-per-pipeline-rank 0", "found 0, allowed: a whole number from 1"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(Megatron(pipeline + test.arguments).Errors(), HasSubstr(test.problem));
  }
  EXPECT_THAT(Megatron(pipeline + "--decoder-first-pipeline-num-layers 1", "").Errors(),
              HasSubstr("found without --num-layers, allowed: beside it"));
  // What a variable holds is words, not commands: "|" ends none of them.
  const ResolvedJob held =
      Megatron(pipeline + "ARGS=\"--pipeline-model-parallel-layout Et|tL --bf16\"").Load();
  EXPECT_EQ(held.job.plan.pipeline.layers_per_stage, (std::vector<double>{1, 1}));
  EXPECT_EQ(held.job.precision.compute, DType::kBf16);
  const ResolvedJob alone = Megatron("--pipeline-model-parallel-layout 'Et|tL'").Load();
  EXPECT_THAT(Joined(alone.notes),
              HasSubstr("only with pipeline parallelism (pipeline-model-parallel-layout)"));
}

// arguments.py: sequence parallelism has its own overlap, whatever the flag says.
TEST(Megatron, InputGradientsWithoutOverlap) {
  const std::string flags =
      "--tensor-model-parallel-size 2 --no-async-tensor-model-parallel-allreduce ";
  const ResolvedJob job = Megatron(flags).Load();
  EXPECT_EQ(job.job.plan.tensor.async_input_gradient, false);
  EXPECT_THAT(Joined(job.notes), HasSubstr("newer versions of Megatron-LM ignore it"));
  const ResolvedJob cut = Megatron(flags + "--sequence-parallel").Load();
  EXPECT_EQ(cut.job.plan.tensor.async_input_gradient, std::nullopt);
  EXPECT_THAT(Joined(cut.notes), HasSubstr("sequence parallelism overlaps anyway"));
}

// Paired micro-batches are the plan's; whether it takes them is its own rule.
TEST(Megatron, PairsMicroBatches) {
  Diagnostics ignored;
  const ImportedJob imported =
      ImportMegatron({"run.sh", "--overlap-moe-expert-parallel-comm", ""}, {}, ignored);
  EXPECT_TRUE(std::any_of(imported.over.begin(), imported.over.end(), [](const Setting& setting) {
    return setting.path == "plan.expert.overlap_microbatches" && setting.value.text == "true";
  }));
}

TEST(Megatron, ExpertsHaveNoBiases) {
  const std::string errors = Megatron("--num-experts 8 --moe-ffn-hidden-size 48").Errors();
  EXPECT_THAT(errors, HasSubstr("run.sh:3:15: num-experts: found 8 experts without "
                                "--disable-bias-linear, allowed: with it"));
  EXPECT_EQ(errors.find("mlp_bias"), std::string::npos) << errors;
}

TEST(Megatron, MixesExperts) {
  const std::string experts = "--disable-bias-linear --num-experts 8 --moe-router-topk 2 ";
  const ExpertsSpec spec = Network(experts + "--moe-ffn-hidden-size 48").experts;
  EXPECT_EQ(spec.count, 8);
  EXPECT_EQ(spec.top_k, 2);
  EXPECT_EQ(spec.ffn_size, 48);
  EXPECT_EQ(Megatron(experts + "--expert-model-parallel-size 4").Load().job.plan.expert_parallel,
            4);
}

}  // namespace
}  // namespace stepsim
