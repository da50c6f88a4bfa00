// Expectations are what DeepSpeed documents for each key (docs/_pages/config-json.md) and its
// defaults (runtime/zero/config.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/imported.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using testing::Import;
using testing::Joined;
using testing::ValueOf;

// Two nodes of four GPUs, a model and a length: what DeepSpeed's file never says.
Import Speed(const std::string& body) {
  return {.framework = "deepspeed",
          .text = "{" + body + "}",
          .file = "ds.json",
          .sets = {"hardware=box", "nodes=2", "model=tiny", "batch.sequence_length=8"}};
}
const std::string kMicro = "\"train_micro_batch_size_per_gpu\": 2, ";
Import Zero(const std::string& zero, const std::string& more = "") {
  return Speed(kMicro + more + "\"zero_optimization\": {" + zero + "}");
}

TEST(Deepspeed, TakesZerosKnobsByTheirNames) {
  const ResolvedJob job =
      Zero(
          "\"stage\": 3, \"overlap_comm\": false, \"reduce_bucket_size\": 2e8,\n"
          "\"stage3_prefetch_bucket_size\": 1e7, \"stage3_max_live_parameters\": 1e8, "
          "\"stage3_max_reuse_distance\": 3e8, \"stage3_param_persistence_threshold\": 1e4, "
          "\"stage3_module_granularity_threshold\": 5, \"zero_hpz_partition_size\": 4, "
          "\"sub_group_size\": 7e8, \"stage3_allgather_sequential\": true")
          .Load();
  const ZeroPlan& zero = job.job.plan.zero;
  EXPECT_EQ(job.job.plan.strategy, "zero");
  EXPECT_EQ(zero.stage, 3);
  EXPECT_EQ(zero.overlap_comm, false);
  EXPECT_EQ(ValueOf(job, "plan.zero.reduce_bucket_size"), "200000000 (ds.json:1)");
  EXPECT_EQ(zero.stage3_prefetch_bucket_size, 10'000'000);
  EXPECT_EQ(zero.stage3_max_live_parameters, 100'000'000);
  EXPECT_EQ(zero.stage3_max_reuse_distance, 300'000'000);
  EXPECT_EQ(zero.stage3_param_persistence_threshold, 10'000);
  EXPECT_EQ(zero.stage3_module_granularity_threshold, 5);
  EXPECT_EQ(zero.zero_hpz_partition_size, 4);
  EXPECT_EQ(zero.sub_group_size, 700'000'000);
  EXPECT_TRUE(zero.stage3_allgather_sequential);
}

// Real files carry the keys of all stages.
TEST(Deepspeed, KeysOfOtherStagesAreNoted) {
  const ResolvedJob job =
      Zero(
          "\"stage\": 2, \"overlap_comm\": true, \"allgather_partitions\": true, "
          "\"contiguous_gradients\": true, \"reduce_scatter\": true, "
          "\"stage3_prefetch_bucket_size\": 1e7")
          .Load();
  EXPECT_EQ(job.job.plan.zero.stage, 2);
  EXPECT_THAT(Joined(job.notes), HasSubstr("without effect in this job: "
                                           "plan.zero.stage3_prefetch_bucket_size (ds.json:1)"));
}

TEST(Deepspeed, RefusesToRunWithoutZero) {
  const std::string message = "allowed: 1, 2, 3; DeepSpeed without ZeRO is not simulated";
  EXPECT_THAT(Zero("\"stage\": 0").Errors(), HasSubstr("found stage 0, " + message));
  EXPECT_THAT(Speed(kMicro + "\"bf16\": {\"enabled\": true}").Errors(), HasSubstr(message));
}

// train_batch_size = micro batch x accumulation x GPUs (8 here); two of the three say the third.
TEST(Deepspeed, BatchSizes) {
  const std::string zero = "\"zero_optimization\": {\"stage\": 1}";
  const auto batch = [&](const std::string& keys) { return Speed(keys + zero).Load().job.batch; };
  EXPECT_EQ(batch("\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, ")
                .gradient_accumulation_steps,
            4);
  EXPECT_EQ(
      batch("\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2, ").micro_batch_size, 4);
  EXPECT_EQ(batch("\"train_batch_size\": 64, ").micro_batch_size, 8);
  EXPECT_EQ(batch("\"train_batch_size\": 64, ").gradient_accumulation_steps, 1);
  EXPECT_EQ(batch("\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3, ")
                .gradient_accumulation_steps,
            3);
  EXPECT_EQ(batch("\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 2, ")
                .micro_batch_size,
            2);
  EXPECT_THAT(
      Speed("\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, "
            "\"gradient_accumulation_steps\": 3, " +
            zero)
          .Errors(),
      HasSubstr("ds.json:1:22: batch.global_batch_size: global_batch_size (64) must equal "
                "micro_batch_size x gradient_accumulation_steps x GPUs (2 x 3 x 8); nearest "
                "valid: 48"));
}

TEST(Deepspeed, Precision) {
  const auto compute = [](const std::string& keys) {
    return Zero("\"stage\": 1", keys).Load().job.precision.compute;
  };
  EXPECT_EQ(compute("\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": false}, "),
            DType::kBf16);
  EXPECT_EQ(compute("\"fp16\": {\"enabled\": true, \"loss_scale\": 0}, "), DType::kFp16);
  EXPECT_EQ(compute(""), DType::kFp32);
  EXPECT_THAT(Zero("\"stage\": 1", "\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}, ")
                  .Errors(),
              HasSubstr("one of the two"));
  EXPECT_THAT(Zero("\"stage\": 1",
                   "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "
                   "\"bf16\": {\"enabled\": true}, ")
                  .Errors(),
              HasSubstr("data_types.grad_accum_dtype: found 'fp32', allowed: bf16"));
}

TEST(Deepspeed, Optimizer) {
  const auto job = [](const std::string& optimizer) {
    return Zero("\"stage\": 1", "\"optimizer\": " + optimizer + ", ").Load().job;
  };
  EXPECT_EQ(job("{\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\"}}").optimizer_impl,
            OptimizerImpl::kFused);
  EXPECT_EQ(job("{\"type\": \"Adam\", \"params\": {\"torch_adam\": true}}").optimizer_impl,
            OptimizerImpl::kForeach);
  EXPECT_EQ(job("{\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}").optimizer,
            OptimizerKind::kSgdMomentum);
  EXPECT_THAT(Zero("\"stage\": 1", "\"optimizer\": {\"type\": \"OneBitAdam\"}, ").Errors(),
              HasSubstr("optimizer.type: found 'OneBitAdam', allowed: Adam, AdamW"));
}

// "auto" is filled in by Hugging Face's Trainer: here somebody else must say it.
TEST(Deepspeed, AutoMustBeGiven) {
  Import import = Speed(
      "\"train_micro_batch_size_per_gpu\": \"auto\",\n\"gradient_accumulation_steps\": "
      "\"auto\", \"train_batch_size\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}, "
      "\"gradient_clipping\": \"auto\",\n\"zero_optimization\": {\"stage\": 3, "
      "\"reduce_bucket_size\": \"auto\"}");
  EXPECT_THAT(
      import.Errors(),
      HasSubstr(
          "does not say: plan.zero.reduce_bucket_size (zero_optimization.reduce_bucket_size is "
          "'auto' at line 3, for which the Trainer takes h x h), batch.micro_batch_size "
          "(train_micro_batch_size_per_gpu is 'auto' at "
          "line 1), batch.gradient_accumulation_steps (gradient_accumulation_steps is 'auto' at "
          "line 2), precision.compute (bf16.enabled is 'auto' at line 2); give them in a JOB file "
          "or with, for example, --set plan.zero.reduce_bucket_size=N --set "
          "batch.micro_batch_size=1 --set batch.gradient_accumulation_steps=1 --set "
          "precision.compute=bf16"));
  for (const char* set : {"plan.zero.reduce_bucket_size=5e8", "batch.micro_batch_size=1",
                          "batch.gradient_accumulation_steps=2", "precision.compute=bf16"}) {
    import.sets.emplace_back(set);
  }
  EXPECT_EQ(import.Load().job.plan.zero.reduce_bucket_size, 500'000'000);
}

TEST(Deepspeed, RefusesWhatIsNotSimulated) {
  EXPECT_THAT(Zero("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}").Errors(),
              HasSubstr("zero_optimization.offload_param.device: found 'cpu', which stepsim does "
                        "not simulate (offloading)"));
  EXPECT_EQ(Zero("\"stage\": 3, \"offload_param\": {\"device\": \"none\", \"pin_memory\": true}")
                .Errors(),
            "");
  EXPECT_THAT(Zero("\"stage\": 3, \"zero_quantized_weights\": true").Errors(),
              HasSubstr("quantised gathers"));
  EXPECT_THAT(Zero("\"stage\": 1", "\"sparse_attention\": {\"mode\": \"fixed\"}, ").Errors(),
              HasSubstr("sparse attention"));
}

// AutoTP (runtime/tensor_parallel/config.py): all_reduces, waited for unless tp_overlap_comm.
TEST(Deepspeed, CutsLayers) {
  const auto plan = [](const std::string& keys) {
    return Zero("\"stage\": 1", "\"tensor_parallel\": {" + keys + "}, ").Load().job.plan;
  };
  const ParallelPlan cut = plan("\"autotp_size\": 2");
  EXPECT_EQ(cut.tensor_parallel, 2);
  EXPECT_EQ(cut.tensor.sequence_parallel, false);
  EXPECT_EQ(cut.tensor.async_input_gradient, false);
  EXPECT_FALSE(cut.tensor.vocabulary_parallel_loss);
  EXPECT_EQ(plan("\"autotp_size\": 2, \"tp_overlap_comm\": true").tensor.async_input_gradient,
            true);
  EXPECT_EQ(plan("\"autotp_size\": 0, \"tp_overlap_comm\": true").tensor_parallel, 1);
  const auto error = [](const std::string& stage, const std::string& keys) {
    return Zero("\"stage\": " + stage, "\"tensor_parallel\": {" + keys + "}, ").Errors();
  };
  EXPECT_THAT(error("3", "\"autotp_size\": 2"),
              HasSubstr("tensor_parallel.autotp_size: found 2 with zero_optimization.stage 3, "
                        "allowed: 0, or stage 1 or 2, as DeepSpeed's AutoTP wants it"));
  EXPECT_THAT(error("1", "\"autotp_size\": -1"), HasSubstr("found -1, allowed: a whole number"));
  EXPECT_THAT(error("1", "\"autotp_size\": 3"), HasSubstr("must divide"));
  EXPECT_THAT(error("1", "\"autotp_size\": 2, \"partition_config\": {\"x\": 1}"),
              HasSubstr("cuts of your own"));
  EXPECT_THAT(error("1", "\"autotp_size\": \"auto\""),
              HasSubstr("does not say: plan.tensor_parallel (tensor_parallel.autotp_size is 'auto' "
                        "at line 1)"));
}

// Ulysses: ranks swap plain pieces of the sequence for heads.
TEST(Deepspeed, CutsSequences) {
  const ResolvedJob job = Zero("\"stage\": 3",
                               "\"sequence_parallel_size\": 2, "
                               "\"seq_parallel_communication_data_type\": \"fp32\", ")
                              .Load();
  EXPECT_EQ(job.job.plan.context_parallel, 2);
  EXPECT_EQ(job.job.plan.context.comm_type, ContextExchange::kAllToAll);
  EXPECT_FALSE(job.job.plan.context.load_balance);
  EXPECT_THAT(Joined(job.notes), HasSubstr("ZeRO reduces in communication_data_type"));
  EXPECT_EQ(
      Zero("\"stage\": 3", "\"sequence_parallel_size\": 1, ").Load().job.plan.context_parallel, 1);
}

// runtime/pipe/module.py, _partition_layers: methods and the default, parameters.
TEST(Deepspeed, CutsTheNetworkIntoStages) {
  const auto load = [](const std::string& keys) {
    return Zero("\"stage\": 1",
                "\"gradient_accumulation_steps\": 4, \"pipeline\": {" + keys + "}, ")
        .Load();
  };
  const struct {
    std::string method;
    StageBalance balance;
  } kCases[] = {
      {"", StageBalance::kParameters},
      {", \"partition_method\": \"Parameters\"", StageBalance::kParameters},
      {", \"partition\": \"best\"", StageBalance::kParameters},
      {", \"partition_method\": \"uniform\"", StageBalance::kEnds},
      {", \"partition_method\": \"type:transformer\"", StageBalance::kLayers},
      {", \"partition_method\": \"type:transformer|embedding\"", StageBalance::kEnds},
  };
  for (const auto& test : kCases) {
    const ParallelPlan plan = load("\"stages\": 2" + test.method).job.plan;
    EXPECT_EQ(plan.pipeline_parallel, 2);
    EXPECT_EQ(plan.pipeline.schedule, "1f1b");
    EXPECT_EQ(plan.pipeline.balance, test.balance) << test.method;
    EXPECT_EQ(plan.clip_gradients, false);  // gradient_clipping is 0
  }
  const RecomputeSpec recompute =
      load("\"num_stages\": 2, \"activation_checkpoint_interval\": 1").job.recompute;
  EXPECT_TRUE(recompute.IsFull());
  EXPECT_EQ(recompute.num_layers, 1);
  const ResolvedJob alone = load("\"stages\": 1, \"partition\": \"uniform\"");
  EXPECT_THAT(Joined(alone.notes), HasSubstr("only with pipeline parallelism (pipeline.stages)"));
}

TEST(Deepspeed, RefusesStagesThatDeepspeedRefuses) {
  const auto error = [](const std::string& stage, const std::string& keys) {
    return Zero("\"stage\": " + stage, "\"pipeline\": {" + keys + "}, ").Errors();
  };
  EXPECT_THAT(error("2", "\"stages\": 2"),
              HasSubstr("DeepSpeed's pipelines do not work with ZeRO-2"));
  EXPECT_THAT(error("1", "\"stages\": 2, \"partition_method\": \"profile\""),
              HasSubstr("pipeline.partition_method: found 'profile', allowed: uniform, parameters, "
                        "type:REGEX"));
  EXPECT_THAT(error("1", "\"stages\": 2, \"partition_method\": [1]"),
              HasSubstr("allowed: uniform"));
  EXPECT_THAT(error("1", "\"stages\": \"auto\""),
              HasSubstr("plan.pipeline_parallel (pipeline.stages is 'auto' at line 1)"));
  EXPECT_THAT(error("1", "\"stages\": \"two\""), HasSubstr("found 'two', allowed: a whole number"));
}

TEST(Deepspeed, ClipsWithModelParallelism) {
  const ParallelPlan plan = Zero("\"stage\": 1",
                                 "\"gradient_clipping\": 1.0, \"tensor_parallel\": "
                                 "{\"autotp_size\": 2}, ")
                                .Load()
                                .job.plan;
  EXPECT_EQ(plan.clip_gradients, true);
}

TEST(Deepspeed, AFileOfAnotherKind) {
  Import import = Zero("\"stage\": 1");
  import.text = "--num-layers 2";
  EXPECT_EQ(import.Errors(),
            "ds.json:1:1: found '--num-layers 2', allowed: a mapping with the keys of deepspeed\n");
}

TEST(Deepspeed, NoKeyPassesSilently) {
  const ResolvedJob job =
      Zero("\"stage\": 1, \"overlap_com\": true", "\"steps_per_print\": 5, ").Load();
  EXPECT_THAT(Joined(job.warnings),
              HasSubstr("ds.json: not understood and left out: zero_optimization.overlap_com (line "
                        "1; nearest known: zero_optimization.overlap_comm)"));
  EXPECT_THAT(Joined(job.notes), HasSubstr("logging (steps_per_print)"));
}

TEST(Deepspeed, IsTheJobThatOneWouldWriteByHand) {
  Import import = Zero("\"stage\": 2, \"overlap_comm\": true, \"reduce_bucket_size\": 2e8",
                       "\"bf16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"Adam\"}, "
                       "\"gradient_accumulation_steps\": 2, ");
  import.sets.emplace_back("name=x");
  const ResolvedJob by_hand = LoadJobText(
      "{name: x, model: tiny, hardware: box, nodes: 2, plan: {strategy: zero, zero: {stage: 2, "
      "overlap_comm: true, reduce_bucket_size: 200000000}}, batch: {micro_batch_size: 2, "
      "sequence_length: 8, gradient_accumulation_steps: 2}, precision: {compute: bf16}, optimizer: "
      "adamw, optimizer_impl: fused}",
      "hand.yaml", {}, testing::ImportConfigs());
  EXPECT_EQ(import.Load().resolved_json, by_hand.resolved_json);
}

}  // namespace
}  // namespace stepsim
