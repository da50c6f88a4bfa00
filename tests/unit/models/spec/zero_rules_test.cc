// Keys of DeepSpeed and Megatron: what has no effect, what the frameworks refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

// The problem of a job of two nodes with 8 GPUs each.
std::string ErrorOf(const std::string& plan, const Sets& sets = {}) {
  const std::string job = R"(model:
  name: tiny
  transformer: {layers: 2, hidden_size: 64, heads: 4, ffn_size: 128, vocab_size: 1000}
hardware: h100-sxm-dgx
nodes: 2
batch: {micro_batch_size: 1, sequence_length: 128}
plan: )" + plan + "\n";
  try {
    LoadJobText(job, "job.yaml", sets, DirectoryConfigSource(STEPSIM_SOURCE_DIR "/configs"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string ZeroError(const std::string& keys, const Sets& sets = {}) {
  return ErrorOf("{strategy: zero, zero: {" + keys + "}}", sets);
}
std::string MegatronError(const std::string& keys, const Sets& sets = {}) {
  return ErrorOf("{strategy: megatron, megatron: {" + keys + "}}", sets);
}

TEST(ZeroRules, EveryKnobIsAccepted) {
  EXPECT_EQ(ZeroError("stage: 1, overlap_comm: true, reduce_bucket_size: 1000, reduce_scatter: "
                      "false, communication_data_type: fp32"),
            "no error");
  EXPECT_EQ(ZeroError("stage: 2, contiguous_gradients: false, allgather_into_tensor: false, "
                      "allgather_bucket_size: 1000"),
            "no error");
  EXPECT_EQ(ZeroError("stage: 2, use_multi_rank_bucket_allreduce: false, round_robin_gradients: "
                      "true, allgather_partitions: false"),
            "no error");
  EXPECT_EQ(ZeroError("stage: 3, iteration: first, stage3_allgather_sequential: true, "
                      "separate_reduce_group: true, sub_group_size: 1000"),
            "no error");
  EXPECT_EQ(ZeroError("stage: 3, stage3_prefetch_bucket_size: 1, stage3_max_live_parameters: 1, "
                      "stage3_max_reuse_distance: 1, stage3_param_persistence_threshold: 1, "
                      "stage3_module_granularity_threshold: 1, stage3_leaf_modules: layers, "
                      "zero_hpz_partition_size: 4"),
            "no error");
}

// DeepSpeed's pipelines keep gradients and parameters whole.
TEST(ZeroRules, PipelinesTakeStageOneAlone) {
  const std::string plan = "{strategy: zero, pipeline_parallel: 2, zero: {stage: ";
  EXPECT_EQ(ErrorOf(plan + "1}}"), "no error");
  for (const char* stage : {"2", "3"}) {
    EXPECT_THAT(ErrorOf(plan + stage + "}}"),
                HasSubstr("pipelines do not work with ZeRO-2 and ZeRO-3"));
  }
}

TEST(ZeroRules, KeysOfOtherStages) {
  for (const char* key :
       {"iteration: first", "stage3_prefetch_bucket_size: 1", "stage3_max_live_parameters: 1",
        "stage3_max_reuse_distance: 1", "stage3_param_persistence_threshold: 1",
        "stage3_module_granularity_threshold: 1", "stage3_leaf_modules: layers",
        "stage3_allgather_sequential: true", "sub_group_size: 1", "zero_hpz_partition_size: 4",
        "separate_reduce_group: true"}) {
    EXPECT_THAT(ZeroError(std::string("stage: 2, ") + key),
                HasSubstr("has no effect with plan.zero.stage: 1 or 2"))
        << key;
  }
  for (const char* key : {"use_multi_rank_bucket_allreduce: false", "round_robin_gradients: true",
                          "allgather_partitions: false", "allgather_into_tensor: false",
                          "allgather_bucket_size: 1"}) {
    EXPECT_THAT(ZeroError(std::string("stage: 3, ") + key),
                HasSubstr("has no effect with plan.zero.stage: 3"))
        << key;
  }
}

TEST(ZeroRules, KeysThatOthersSwitchOff) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"allgather_bucket_size: 5", "plan.zero.allgather_into_tensor: true, one gather of any size"},
      {"round_robin_gradients: true",
       "an all_reduce of every bucket (use_multi_rank_bucket_allreduce: true)"},
      {"contiguous_gradients: false, reduce_scatter: false",
       "plan.zero.contiguous_gradients: false"},
      {"reduce_scatter: false, use_multi_rank_bucket_allreduce: false",
       "plan.zero.reduce_scatter: false, which all_reduces"},
      {"stage: 3, iteration: first, stage3_max_reuse_distance: 5",
       "plan.zero.iteration: first, which has no recorded order"},
      {"stage: 3, stage3_prefetch_bucket_size: 0, stage3_max_live_parameters: 5",
       "plan.zero.stage3_prefetch_bucket_size: 0, since it bounds only what is gathered ahead"},
      {"stage: 3, overlap_comm: false, separate_reduce_group: true",
       "plan.zero.overlap_comm: false, where one stream orders them anyway"},
  };
  for (const auto& [keys, reason] : cases) {
    EXPECT_THAT(ZeroError(keys), HasSubstr("has no effect with " + reason)) << keys;
  }
}

TEST(ZeroRules, SecondCopiesLieInsideANode) {
  EXPECT_EQ(ZeroError("stage: 3", {"plan.zero.zero_hpz_partition_size=3"}),
            "--set plan.zero.zero_hpz_partition_size=3: plan.zero.zero_hpz_partition_size: found "
            "3, allowed: DeepSpeed's second copy lies inside a node, so a divisor of the 8 GPUs "
            "per node; nearest valid: 2, 4");
  EXPECT_THAT(ZeroError("stage: 3, zero_hpz_partition_size: 16"), HasSubstr("nearest valid: 8"));
  EXPECT_EQ(ZeroError("stage: 3, zero_hpz_partition_size: 8"), "no error");
}

TEST(ZeroRules, FirstIterationsAreFew) {
  EXPECT_EQ(ZeroError("stage: 3, iteration: first", {"simulate.steps=2"}), "no error");
  EXPECT_THAT(ZeroError("stage: 3, iteration: first", {"simulate.steps=3"}),
              HasSubstr("simulate.steps: found 3 with plan.zero.iteration: first, which comes "
                        "twice, allowed: 1 or 2"));
  EXPECT_THAT(
      MegatronError("overlap_grad_reduce: true, iteration: first", {"simulate.steps=2"}),
      HasSubstr("simulate.steps: found 2 with plan.megatron.iteration: first, which comes once, "
                "allowed: 1"));
}

TEST(ZeroRules, AHostThatWaitsCannotBeCaptured) {
  EXPECT_EQ(ZeroError("stage: 3", {"host.cuda_graphs=true"}),
            "--set host.cuda_graphs=true: host.cuda_graphs: found 'true' with DeepSpeed's stage 3, "
            "where the host waits for the device within a step and nothing can be captured, "
            "allowed: 'false'");
  EXPECT_THAT(ZeroError("stage: 1, overlap_comm: true", {"host.cuda_graphs=true"}),
              HasSubstr("DeepSpeed's overlap_comm"));
  EXPECT_THAT(ZeroError("stage: 1", {"host.cuda_graphs=true", "precision.compute=fp16"}),
              HasSubstr("DeepSpeed's overflow check of fp16"));
  EXPECT_EQ(ZeroError("stage: 1", {"host.cuda_graphs=true"}), "no error");
}

TEST(ZeroRules, OneCallPerRankHasAnEnd) {
  EXPECT_THAT(ZeroError("stage: 2, allgather_partitions: false", {"nodes=10000"}),
              HasSubstr("plan.zero.allgather_partitions: found 'false', a call for each of the "
                        "80000 GPUs, allowed: at most 65536 GPUs, or 'true'"));
}

TEST(ZeroRules, TheCeilingNeedsGathersAhead) {
  EXPECT_THAT(ZeroError("stage: 2", {"plan.ideal=true"}),
              HasSubstr("plan.ideal: has no effect with plan.zero.stage: 1 or 2"));
  EXPECT_EQ(ZeroError("stage: 3", {"plan.ideal=true"}), "no error");
  EXPECT_THAT(ZeroError("stage: 3, separate_reduce_group: true", {"plan.ideal=true"}),
              HasSubstr("has no effect with plan.ideal: true"));
  EXPECT_THAT(MegatronError("overlap_grad_reduce: true", {"plan.ideal=true"}),
              HasSubstr("plan.ideal: has no effect with plan.megatron.use_distributed_optimizer: "
                        "false, which gathers nothing"));
}

TEST(MegatronRules, EveryKnobIsAccepted) {
  EXPECT_EQ(MegatronError("use_distributed_optimizer: true, overlap_grad_reduce: true, "
                          "overlap_param_gather: true, ddp_num_buckets: 4, "
                          "ddp_pad_buckets_for_high_nccl_busbw: true, ddp_average_in_collective: "
                          "true, num_distributed_optimizer_instances: 2"),
            "no error");
  EXPECT_EQ(MegatronError("use_distributed_optimizer: true, grad_reduce_in_fp32: false, "
                          "reduce_scatter_with_fp32_accumulation: true",
                          {"precision.compute=bf16"}),
            "no error");
}

TEST(MegatronRules, ParameterGathersNeedBoth) {
  EXPECT_EQ(
      MegatronError("use_distributed_optimizer: true", {"plan.megatron.overlap_param_gather=true"}),
      "--set plan.megatron.overlap_param_gather=true: plan.megatron.overlap_param_gather: "
      "found 'true' with overlap_grad_reduce: false; Megatron-LM's --overlap-param-gather "
      "needs --use-distributed-optimizer and --overlap-grad-reduce");
  EXPECT_THAT(MegatronError("overlap_grad_reduce: true, overlap_param_gather: true"),
              HasSubstr("found 'true' with use_distributed_optimizer: false"));
}

TEST(MegatronRules, Instances) {
  EXPECT_THAT(MegatronError("use_distributed_optimizer: true, "
                            "num_distributed_optimizer_instances: 3"),
              HasSubstr("instances (3) must divide the data parallel size (16); nearest valid: "
                        "2, 4"));
  EXPECT_THAT(MegatronError("num_distributed_optimizer_instances: 2"),
              HasSubstr("found 2 with use_distributed_optimizer: false; Megatron-LM's instances "
                        "are of the distributed optimizer"));
}

TEST(MegatronRules, BucketsBySizeOrNumber) {
  EXPECT_THAT(MegatronError("overlap_grad_reduce: true, ddp_bucket_size: 5, ddp_num_buckets: 5"),
              HasSubstr("plan.megatron.ddp_num_buckets: found beside ddp_bucket_size, allowed: one "
                        "of the two, as Megatron-LM has it"));
  EXPECT_THAT(MegatronError("ddp_num_buckets: 5"),
              HasSubstr("has no effect with plan.megatron.overlap_grad_reduce: false, which has "
                        "one bucket"));
}

TEST(MegatronRules, Fp32Accumulation) {
  const std::string on = "reduce_scatter_with_fp32_accumulation: true";
  EXPECT_THAT(MegatronError(on), HasSubstr("found 'true' with use_distributed_optimizer: false"));
  EXPECT_THAT(MegatronError("use_distributed_optimizer: true, " + on),
              HasSubstr("found 'true' with gradients that are reduced in fp32 anyway"));
  EXPECT_THAT(MegatronError("use_distributed_optimizer: true, grad_reduce_in_fp32: false, "
                            "num_distributed_optimizer_instances: 2, " +
                                on,
                            {"precision.compute=bf16"}),
              HasSubstr("found 'true' with num_distributed_optimizer_instances above 1"));
}

// Known, and without effect as long as there is no pipeline.
TEST(MegatronRules, KeysOfPipelines) {
  for (const char* key : {"align_param_gather: false", "align_grad_reduce: false",
                          "overlap_param_gather_with_optimizer_step: true"}) {
    EXPECT_THAT(MegatronError(key), HasSubstr("pipeline")) << key;
  }
}

// With one they have an effect; the gathers' alignment is that of interleaving.
TEST(MegatronRules, KeysOfPipelinesWithOne) {
  const std::string pipeline = "plan.pipeline_parallel=2";
  EXPECT_EQ(MegatronError("align_grad_reduce: false", {pipeline}), "no error");
  EXPECT_THAT(MegatronError("align_param_gather: false", {pipeline}),
              HasSubstr("no interleaved pipeline"));
  EXPECT_EQ(MegatronError("align_param_gather: false",
                          {pipeline, "plan.pipeline.schedule=interleaved_1f1b",
                           "plan.pipeline.virtual_stages=2", "model.transformer.layers=4",
                           "batch.gradient_accumulation_steps=2"}),
            "no error");
  EXPECT_THAT(MegatronError("overlap_param_gather_with_optimizer_step: true", {pipeline}),
              HasSubstr("not modelled"));
}

}  // namespace
}  // namespace stepsim
