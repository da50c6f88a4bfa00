// What FSDP refuses, with the framework's rule, and keys that would do nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kBox = R"(name: box
gpus_per_node: 8
gpu:
  name: chip
  peak: {fp32: 10 TFLOP/s, bf16: 100 TFLOP/s, fp16: 100 TFLOP/s}
  hbm_bandwidth: 1 TB/s
  memory: 80 GiB
  sms: 100
intra_node: {type: nvlink, bandwidth: 100 GB/s, latency: 2 us}
network:
  name: fast
  nics_per_node: 8
  link: {type: infiniband, bandwidth: 200 Gb/s, latency: 5 us}
sources: {gpu: "made up", network.link.latency: "made up"}
)";
constexpr const char* kTiny = R"(name: tiny
transformer: {layers: 4, hidden_size: 64, heads: 4, ffn_size: 128, vocab_size: 1000}
sources: {transformer: "made up"}
)";

// What a job of two nodes with these settings is told, "" when it is accepted.
std::string Told(const std::string& strategy, std::vector<std::string> sets) {
  const MemoryConfigSource source({{"hardware/box.yaml", kBox}, {"models/tiny.yaml", kTiny}});
  const std::string job = "model: tiny\nhardware: box\nnodes: 2\nplan: {strategy: " + strategy +
                          "}\nbatch: {sequence_length: 128}\n";
  try {
    LoadJobText(job, "job.yaml", sets, source);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FsdpRules, HybridNeedsASecondDimension) {
  const std::string hybrid = "plan.fsdp1.sharding_strategy=HYBRID_SHARD";
  EXPECT_EQ(Told("fsdp1", {hybrid}), "");
  EXPECT_EQ(Told("fsdp1", {hybrid, "plan.fsdp1.shard_size=4"}), "");
  EXPECT_EQ(
      Told("fsdp1", {hybrid, "nodes=1"}),
      "--set plan.fsdp1.sharding_strategy=HYBRID_SHARD: plan.fsdp1.sharding_strategy: found 8 "
      "ranks of 8 for each copy, which leaves one copy: HYBRID_SHARD shards over one dimension "
      "of a mesh and replicates over the other; nearest valid: shard_size: 4, or FULL_SHARD");
  EXPECT_THAT(
      Told("fsdp1", {hybrid, "plan.fsdp1.shard_size=16"}),
      HasSubstr("plan.fsdp1.shard_size: found 16 ranks of 16 for each copy, which leaves one "
                "copy"));
  EXPECT_THAT(Told("fsdp1", {hybrid, "gpus_per_node=1"}),
              HasSubstr("found 1 ranks of 2 for each copy, which leaves nothing sharded"));
  EXPECT_THAT(Told("fsdp1", {hybrid, "plan.fsdp1.shard_size=6"}),
              HasSubstr("shard_size (6) must divide the 16 GPUs; nearest valid: 4, 8"));
  EXPECT_THAT(
      Told("fsdp2", {"plan.fsdp2.shard_size=1"}),
      HasSubstr("found 1, with which nothing is sharded: HSDP takes a mesh of two dimensions, "
                "copies x ranks of a copy; nearest valid: 2, 4, or plan.strategy: ddp"));
  EXPECT_THAT(Told("fsdp2", {"plan.fsdp2.shard_size=12"}),
              HasSubstr("shard_size (12) must divide the 16 GPUs; nearest valid: 8, 16"));
  EXPECT_THAT(Told("fsdp2",
                   {"plan.fsdp2.requires_all_reduce=false", "batch.gradient_accumulation_steps=2"}),
              HasSubstr("plan.fsdp2.requires_all_reduce: has no effect with one copy of the "
                        "parameters (no HSDP)"));
}

// The limiter synchronises the host with an event, the first iteration's check reads its answer;
// FSDP2 does neither.
TEST(FsdpRules, AHostThatWaitsCannotBeCaptured) {
  const std::string graphs = "host.cuda_graphs=true";
  EXPECT_THAT(Told("fsdp1", {graphs}),
              HasSubstr("host.cuda_graphs: found 'true' with FSDP1's limit_all_gathers, where the "
                        "host waits for the device within a step"));
  EXPECT_THAT(
      Told("fsdp1", {graphs, "plan.fsdp1.limit_all_gathers=false", "plan.fsdp1.iteration=first"}),
      HasSubstr("FSDP1's first iteration"));
  EXPECT_EQ(Told("fsdp1", {graphs, "plan.fsdp1.limit_all_gathers=false"}), "");
  EXPECT_EQ(Told("fsdp1", {graphs, "plan.fsdp1.sharding_strategy=NO_SHARD"}), "");
  EXPECT_EQ(Told("fsdp2", {graphs}), "");
}

TEST(FsdpRules, AnIntegerReshardDivides) {
  for (const std::string good : {"auto", "true", "false", "1", "2", "8", "16"}) {
    EXPECT_EQ(Told("fsdp2", {"plan.fsdp2.reshard_after_forward=" + good}), "") << good;
  }
  EXPECT_EQ(
      Told("fsdp2", {"plan.fsdp2.reshard_after_forward=6"}),
      "--set plan.fsdp2.reshard_after_forward=6: plan.fsdp2.reshard_after_forward: as a number "
      "(6) it must be a factor of the 16 ranks over which a copy is sharded; nearest valid: 4, "
      "8");
  EXPECT_THAT(Told("fsdp2", {"plan.fsdp2.reshard_after_forward=16", "plan.fsdp2.shard_size=8"}),
              HasSubstr("a factor of the 8 ranks over which a copy is sharded; nearest valid: 8"));
  EXPECT_THAT(Told("fsdp2", {"plan.fsdp2.reshard_after_forward=0"}), HasSubstr("nearest valid: 1"));
  EXPECT_THAT(
      Told("fsdp2", {"plan.fsdp2.reshard_after_forward=always"}),
      HasSubstr("found 'always', allowed: auto, true, false, or a divisor of the 16 ranks of "
                "a copy"));
}

TEST(FsdpRules, WrappedModulesAreThoseOfTheNetwork) {
  for (const std::string plan : {"fsdp1", "fsdp2"}) {
    const std::string wrap = "plan." + plan + ".wrap=custom";
    const std::string modules = "plan." + plan + ".wrap_modules=";
    EXPECT_EQ(Told(plan, {wrap, modules + "[embedding, layers.*, final_norm+head]"}), "");
    EXPECT_THAT(Told(plan, {wrap}),
                HasSubstr("missing, allowed: a list of modules for wrap: custom"));
    EXPECT_THAT(Told(plan, {wrap, modules + "[layer.*]"}),
                HasSubstr("found 'layer.*', which fits no module, allowed: embedding, layers.0 to "
                          "layers.3, final_norm, head, loss; did you mean 'layers.*'?"));
    EXPECT_THAT(Told(plan, {modules + "[head]"}),
                HasSubstr("wrap_modules: has no effect with a plan." + plan +
                          ".wrap that is not "
                          "custom"));
    EXPECT_THAT(Told(plan, {wrap, modules + "[head]", "model.transformer.tied_embeddings=true"}),
                HasSubstr("found 'head' with model.transformer.tied_embeddings: true"));
    EXPECT_THAT(Told(plan, {wrap, modules + "head"}), HasSubstr("allowed: a list of texts"));
  }
  EXPECT_THAT(Told("fsdp2", {"plan.fsdp2.keep_after_forward=[haed]"}),
              HasSubstr("plan.fsdp2.keep_after_forward: found 'haed', which fits no module"));
}

TEST(FsdpRules, OnlyATableIsNotNeededInBackward) {
  const std::string off = "plan.fsdp2.unshard_in_backward=false";
  EXPECT_THAT(Told("fsdp2", {off}), HasSubstr("an embedding without norm that wrap: custom wraps "
                                              "alone"));
  EXPECT_EQ(Told("fsdp2",
                 {off, "plan.fsdp2.wrap=custom", "plan.fsdp2.wrap_modules=[embedding, layers.*]"}),
            "");
  EXPECT_THAT(Told("fsdp2",
                   {off, "plan.fsdp2.wrap=custom", "plan.fsdp2.wrap_modules=[embedding+layers.0]"}),
              HasSubstr("allowed: false only where backward reads no parameters"));
}

TEST(FsdpRules, WhatIsNotModelledIsRefused) {
  EXPECT_THAT(Told("fsdp1", {"plan.fsdp1.cpu_offload=true"}), HasSubstr("are not modelled"));
  EXPECT_THAT(Told("fsdp2", {"plan.fsdp2.cpu_offload=true"}), HasSubstr("are not modelled"));
  EXPECT_THAT(Told("fsdp1", {"plan.fsdp1.iteration=first", "simulate.steps=2"}),
              HasSubstr("found 2 with plan.fsdp1.iteration: first, which comes once, allowed: 1"));
}

// Streams have the priority that the framework gives them, unless the job says otherwise.
TEST(FsdpRules, StreamPriorities) {
  JobSpec job;
  EXPECT_EQ(PriorityOf(job), StreamPriority::kDefault);  // DDP
  job.plan.strategy = "fsdp2";
  EXPECT_EQ(PriorityOf(job), StreamPriority::kHigh);
  job.host.stream_priority = StreamPriority::kDefault;
  EXPECT_EQ(PriorityOf(job), StreamPriority::kDefault);
  job.host.stream_priority = StreamPriority::kFramework;
  job.plan.strategy = "fsdp1";
  EXPECT_EQ(PriorityOf(job), StreamPriority::kDefault);
  job.plan.fsdp1.sharding_strategy = ShardingStrategy::kHybridShard;
  EXPECT_EQ(PriorityOf(job), StreamPriority::kHigh);
  job.plan.fsdp1.limit_all_gathers = false;
  EXPECT_EQ(PriorityOf(job), StreamPriority::kDefault);
}

// A key that would do nothing is an error: the user believes that it does something.
TEST(FsdpRules, KeysWithoutEffect) {
  struct Row {
    std::string strategy;
    std::vector<std::string> sets;
    std::string key;
  };
  const std::vector<Row> rows = {
      {"fsdp1",
       {"plan.fsdp1.sharding_strategy=NO_SHARD", "plan.fsdp1.backward_prefetch=none"},
       "plan.fsdp1.backward_prefetch"},
      {"fsdp1",
       {"plan.fsdp1.sharding_strategy=NO_SHARD", "plan.fsdp1.limit_all_gathers=false"},
       "plan.fsdp1.limit_all_gathers"},
      {"fsdp1",
       {"plan.fsdp1.sharding_strategy=SHARD_GRAD_OP", "plan.fsdp1.backward_prefetch=none"},
       "plan.fsdp1.backward_prefetch"},
      {"fsdp1", {"plan.fsdp1.shard_size=4"}, "plan.fsdp1.shard_size"},
      {"fsdp1", {"plan.fsdp1.no_sync=false"}, "plan.fsdp1.no_sync"},
      {"fsdp1",
       {"plan.fsdp1.iteration=first", "plan.fsdp1.forward_prefetch=true"},
       "plan.fsdp1.forward_prefetch"},
      {"fsdp1",
       {"plan.ideal=true", "plan.fsdp1.limit_all_gathers=false"},
       "plan.fsdp1.limit_all_gathers"},
      {"fsdp1", {"plan.ideal=true", "plan.fsdp1.sharding_strategy=NO_SHARD"}, "plan.ideal"},
      {"fsdp2",
       {"plan.fsdp2.reshard_after_forward=false", "plan.fsdp2.backward_prefetch=0"},
       "plan.fsdp2.backward_prefetch"},
      {"fsdp2",
       {"plan.ideal=true", "plan.fsdp2.backward_prefetch=2"},
       "plan.fsdp2.backward_prefetch"},
      {"fsdp2", {"plan.fsdp2.is_last_backward=false"}, "plan.fsdp2.is_last_backward"},
      {"fsdp2", {"plan.fsdp2.reshard_after_backward=false"}, "plan.fsdp2.reshard_after_backward"},
      {"fsdp2", {"plan.fsdp2.gradient_divide_factor=4"}, "plan.fsdp2.gradient_divide_factor"},
      {"fsdp2", {"plan.fsdp1.forward_prefetch=true"}, "plan.fsdp1"},
      {"ddp", {"plan.ideal=true"}, "plan.ideal"},
      {"fsdp2", {"plan.ideal=true", "contention=sm"}, "contention"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(Told(row.strategy, row.sets), HasSubstr(": " + row.key + ": has no effect with "))
        << row.key;
  }
  EXPECT_EQ(Told("fsdp2", {"plan.fsdp2.gradient_divide_factor=4", "plan.fsdp2.reduce_dtype=fp16"}),
            "");
  EXPECT_EQ(Told("fsdp1", {"plan.fsdp1.use_orig_params=true", "plan.fsdp1.buffer_dtype=bf16"}), "");
}

}  // namespace
}  // namespace stepsim
