// What a job says about experts is wrong where they cannot be dealt out, and what it may say
// changes the step in the direction that it must.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "models/spec/load_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob =
    "{model: {base: mixtral-8x7b, transformer: {layers: 4}, reference_parameters: 0}, hardware: "
    "h100-sxm-dgx, nodes: 2, plan: {strategy: megatron, expert_parallel: 8}, batch: "
    "{sequence_length: 4096}, precision: {parameters: bf16}, kernels: fused}";

std::string ProblemsOf(const std::vector<std::string>& sets, const std::string& job = kJob) {
  try {
    testing::LoadText(job, sets);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Duration StepOf(const std::vector<std::string>& sets) {
  return RunStep(testing::LoadText(kJob, sets)).report.ranks.front().step;
}

TEST(ExpertRules, AdmitsWhatDivides) {
  EXPECT_EQ(ProblemsOf({}), "");
  EXPECT_EQ(ProblemsOf({"plan.ep=4", "plan.tp=2"}), "");
  EXPECT_EQ(ProblemsOf({"plan.ep=1", "plan.strategy=fsdp2"}), "");
}

TEST(ExpertRules, ExpertsAreDealtOutEvenly) {
  EXPECT_THAT(ProblemsOf({"plan.expert_parallel=3"}),
              HasSubstr("plan.expert_parallel: found 3, allowed: a divisor of the 8 experts of "
                        "model mixtral-8x7b; nearest valid: 2, 4"));
  EXPECT_THAT(ProblemsOf({"plan.tensor_parallel=4"}),
              HasSubstr("expert_parallel x tensor parallelism of the experts = 8 x 4 = 32 must "
                        "divide the ranks of a pipeline stage (16); nearest valid: 4"));
  EXPECT_THAT(ProblemsOf({"model.transformer.experts.top_k=9"}),
              HasSubstr("experts.top_k: found 9, allowed: at most the 8 experts"));
}

TEST(ExpertRules, WhoCanDealThemOut) {
  for (const char* strategy : {"fsdp2", "ddp", "none"}) {
    EXPECT_EQ(ProblemsOf({std::string("plan.strategy=") + strategy}), "");
  }
  EXPECT_THAT(ProblemsOf({"plan.strategy=fsdp1"}),
              HasSubstr("plan.strategy: found 'fsdp1' with experts that are dealt out over ranks "
                        "of their own (expert_parallel: 8), allowed: fsdp2, megatron, ddp or none; "
                        "FSDP1 shards all parameters over the same ranks; nearest valid: fsdp2"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=zero", "plan.zero.stage=2"}),
              HasSubstr("DeepSpeed's groups of experts are not simulated; nearest valid: megatron "
                        "with use_distributed_optimizer: true"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=ddp", "plan.expert.dispatcher=allgather"}),
              HasSubstr("plan.expert.dispatcher: found 'allgather', allowed: alltoall"));
  EXPECT_THAT(ProblemsOf({"plan.tp=2", "plan.ep=4", "plan.tensor.sequence_parallel=false"}),
              HasSubstr("found 'false' with experts and tensor_parallel above 1, allowed: true"));
}

// Megatron-LM's rules for overlap_moe_expert_parallel_comm (transformer_config.py).
TEST(ExpertRules, WhatPairedMicrobatchesNeed) {
  const std::string on = "plan.expert.overlap_microbatches=true";
  const std::string two = "batch.gradient_accumulation_steps=2";
  EXPECT_EQ(ProblemsOf({on, two}), "");
  EXPECT_EQ(ProblemsOf({on, two, "plan.expert.delay_weight_gradients=true"}), "");
  const auto expect = [&](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> sets = {on, two};
    sets.insert(sets.end(), more.begin(), more.end());
    EXPECT_THAT(ProblemsOf(sets),
                HasSubstr("plan.expert.overlap_microbatches: found 'true' with " + text));
  };
  expect({"plan.expert_parallel=1"},
         "plan.expert_parallel: 1, which exchanges nothing, allowed: false, or expert_parallel "
         "from 2");
  expect({"plan.expert.dispatcher=allgather"},
         "dispatcher: allgather, allowed: with dispatcher: alltoall");
  expect(
      {"model.transformer.experts.shared_ffn_size=14336", "plan.expert.shared_expert_overlap=true"},
      "plan.expert.shared_expert_overlap: true, allowed: with shared_expert_overlap: false");
  expect({"recompute.granularity=full"}, "recomputation that repeats exchanges, allowed: with");
  expect({"recompute.granularity=selective", "recompute.modules.moe=true"},
         "recomputation that repeats exchanges, allowed: with");
  EXPECT_EQ(ProblemsOf({on, two, "recompute.granularity=selective"}), "");
  expect({"precision.compute=fp32"}, "precision.compute: fp32, allowed: with");
  expect({"plan.pipeline_parallel=2", "plan.pipeline.schedule=1f1b"},
         "plan.pipeline.schedule: 1f1b, allowed: with pipeline_parallel: 1, or Megatron-LM's "
         "interleaving (schedule: interleaved_1f1b, virtual_stages: 2 or more)");
  EXPECT_EQ(
      ProblemsOf({on, two, "plan.pipeline_parallel=2", "plan.pipeline.schedule=interleaved_1f1b"}),
      "");
  EXPECT_THAT(ProblemsOf({on}), HasSubstr("has no effect with batch.gradient_accumulation_steps"));
  EXPECT_THAT(ProblemsOf({"plan.expert.delay_weight_gradients=true"}),
              HasSubstr("has no effect with neither plan.expert.overlap_microbatches nor"));
}

// torchtitan's ParallelDims: ep % cp == 0 and (dp_shard x cp) % ep == 0.
TEST(ExpertRules, Fsdp2DealsThemOutWithinACopy) {
  EXPECT_THAT(
      ProblemsOf({"plan.strategy=fsdp2", "plan.fsdp2.shard_size=4"}),
      HasSubstr("plan.expert_parallel: found 8, allowed: a multiple of 1 (context_parallel) "
                "that divides the 4 ranks of one copy; nearest valid: 4"));
  EXPECT_THAT(
      ProblemsOf({"plan.strategy=fsdp2", "plan.cp=4", "plan.ep=2"}),
      HasSubstr("plan.expert_parallel: found 2, allowed: a multiple of 4 (context_parallel) "
                "that divides the 16 ranks of one copy"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=fsdp2", "plan.fsdp2.reshard_after_forward=4"}),
              HasSubstr("plan.fsdp2.reshard_after_forward: found 4 with experts on ranks of their "
                        "own, allowed: auto, true or false"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=fsdp2", "plan.fsdp2.forward_prefetch=1"}),
              HasSubstr("has no effect with plan.fsdp2.layer_prefetch: true"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=fsdp2", "plan.ep=1", "plan.fsdp2.layer_prefetch=true"}),
              HasSubstr("has no effect with plan.expert_parallel: 1"));
}

// Megatron-LM's parallel_state: expert data parallel ranks % instances == 0.
TEST(ExpertRules, InstancesDivideTheRanksOfAnExpert) {
  const std::string two = "plan.megatron.num_distributed_optimizer_instances=2";
  const std::string optimizer = "plan.megatron.use_distributed_optimizer=true";
  const std::string overlap = "plan.megatron.overlap_grad_reduce=true";
  EXPECT_EQ(ProblemsOf({two, optimizer, overlap}), "");
  const std::string four = "plan.megatron.num_distributed_optimizer_instances=4";
  EXPECT_THAT(ProblemsOf({four, optimizer, overlap}),
              HasSubstr("found 4, allowed: a divisor of the 2 ranks that hold the same experts; "
                        "nearest valid: 2"));
}

TEST(ExpertRules, KeysWithoutEffect) {
  EXPECT_THAT(ProblemsOf({"plan.expert.shared_expert_overlap=true"}),
              HasSubstr("has no effect with a model without a shared expert"));
  EXPECT_THAT(ProblemsOf({"plan.expert.pad_to_capacity=true"}),
              HasSubstr("has no effect with no plan.expert.capacity_factor"));
  // 2 of 8 experts for a token: of 8 ranks one gets each token once, 4 times its share of 2/8.
  EXPECT_EQ(ProblemsOf({"plan.expert.imbalance=4"}), "");
  EXPECT_THAT(ProblemsOf({"plan.expert.imbalance=4.5"}), HasSubstr("found 4.5, allowed: 1 to 4;"));
  EXPECT_THAT(ProblemsOf({"plan.expert.imbalance=3", "plan.expert_parallel=2"}),
              HasSubstr("found 3, allowed: 1 to 2;"));
  EXPECT_THAT(ProblemsOf({"plan.expert.imbalance=2", "plan.expert_parallel=1"}),
              HasSubstr("has no effect with plan.expert_parallel: 1"));
  const std::string dense =
      "{model: llama-3-8b, hardware: h100-sxm-dgx, batch: {sequence_length: 8192}}";
  EXPECT_THAT(ProblemsOf({"plan.expert.imbalance=2"}, dense),
              HasSubstr("has no effect with a model without experts"));
  EXPECT_THAT(ProblemsOf({"plan.expert_parallel=2"}, dense),
              HasSubstr("found 2 with model llama-3-8b, which has no experts, allowed: 1"));
}

// The busiest rank's products and exchanges set the pace; dropping what is above the mean ends it.
TEST(ExpertRules, ImbalanceCostsAndCapacityEndsIt) {
  const Duration even = StepOf({});
  EXPECT_GT(StepOf({"plan.expert.imbalance=2"}), even);
  EXPECT_EQ(StepOf({"plan.expert.imbalance=2", "plan.expert.capacity_factor=1"}), even);
}

// Eight of sixteen ranks in a node, or two ranks of each node's eight in every group: over the
// network tokens travel at a fraction of NVLink's rate.
TEST(ExpertRules, TokensOverTheNetworkCostMore) {
  const auto exposed = [](const std::vector<std::string>& sets) {
    const RankAccount account = RunStep(testing::LoadText(kJob, sets)).report.ranks.front();
    return account.exposed[static_cast<std::size_t>(Site::kExpertParallel)];
  };
  EXPECT_GT(exposed({"model.transformer.experts.count=16", "plan.expert_parallel=16"}),
            exposed({"model.transformer.experts.count=16", "plan.expert_parallel=8"}));
}

// What is exposed of the exchanges shrinks, what is computed stays.
TEST(ExpertRules, PairsHideTheExchanges) {
  const auto account = [](const std::vector<std::string>& more) {
    std::vector<std::string> sets = {"batch.gradient_accumulation_steps=4", "contention=off"};
    sets.insert(sets.end(), more.begin(), more.end());
    return RunStep(testing::LoadText(kJob, sets)).report.ranks.front();
  };
  const auto site = static_cast<std::size_t>(Site::kExpertParallel);
  const RankAccount row = account({});
  const RankAccount pairs = account({"plan.expert.overlap_microbatches=true"});
  const RankAccount delayed =
      account({"plan.expert.overlap_microbatches=true", "plan.expert.delay_weight_gradients=true"});
  EXPECT_EQ(pairs.communication, row.communication);  // all_to_alls never overlap each other
  EXPECT_LT(pairs.exposed[site], row.exposed[site]);
  EXPECT_LE(delayed.exposed[site], pairs.exposed[site]);
  EXPECT_LT(pairs.step, row.step);
}

TEST(ExpertRules, SharedExpertHidesBehindTheExchanges) {
  const std::string shared = "model.transformer.experts.shared_ffn_size=14336";
  EXPECT_LT(StepOf({shared, "plan.expert.shared_expert_overlap=true"}), StepOf({shared}));
}

}  // namespace
}  // namespace stepsim
