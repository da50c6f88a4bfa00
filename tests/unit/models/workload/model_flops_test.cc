#include "models/workload/model_flops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/published_models.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Flops Count(const JobSpec& job, std::string_view convention) {
  for (const auto& [name, flops] : ModelFlops(job)) {
    if (name == convention) return flops;
  }
  ADD_FAILURE() << "no convention " << convention;
  return {};
}

TEST(ModelFlops, KnowsTheConventionsInTableOrder) {
  std::vector<std::string> names;
  for (const auto& [name, flops] : ModelFlops(testing::JobOf(testing::Gpt2(), 1, 1024))) {
    names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("palm", "megatron", "torchtitan", "causal"));
}

// The tied table is the head's matrix: torchtitan subtracts nothing for it.
TEST(ModelFlops, TorchtitanCountsATiedTableOnceAsTheHead) {
  TransformerSpec tied = testing::Llama3Of8b();
  tied.tied_embeddings = true;
  const auto untied_job = testing::JobOf(testing::Llama3Of8b(), 1, 8192);
  EXPECT_EQ(Count(testing::JobOf(tied, 1, 8192), "torchtitan"), Count(untied_job, "torchtitan"));
}

// nanoGPT's N leaves the position table out and keeps the tied token table:
// 124,439,808 - 1024 x 768 = 123,653,376.
TEST(ModelFlops, PalmLeavesOutThePositionTable) {
  const double per_token = 6 * 123653376.0 + 12.0 * 12 * 12 * 64 * 1024;
  EXPECT_DOUBLE_EQ(Count(testing::JobOf(testing::Gpt2(), 8, 1024), "palm").value,
                   per_token * 8 * 1024);
}

TEST(ModelFlops, OnlyMegatronCountsThePaddingOfTheVocabulary) {
  TransformerSpec padded = testing::Gpt2();
  padded.vocab_multiple = 128;  // 50304 rows, 47 of them padding
  const auto plain_job = testing::JobOf(testing::Gpt2(), 1, 1024);
  const auto padded_job = testing::JobOf(padded, 1, 1024);
  EXPECT_EQ(Count(padded_job, "causal"), Count(plain_job, "causal"));
  EXPECT_DOUBLE_EQ((Count(padded_job, "megatron") - Count(plain_job, "megatron")).value,
                   3 * 2.0 * 1024 * 768 * 47);
}

TEST(ModelFlops, CausalityDoesNotMatterToAnEncoder) {
  const auto job = testing::JobOf(testing::BertBasePretraining(), 4, 512);
  EXPECT_EQ(Count(job, "megatron"), Count(job, "causal"));
}

TEST(ModelFlops, LayerListCountsThreeForwardsUnderEveryConvention) {
  LayerListSpec list;
  list.layers.resize(2);
  list.layers[0].forward_flops = Flops{100};
  list.layers[1].forward_flops = Flops{20};
  list.layers[1].backward_flops = Flops{1};  // of the hardware, not of the model
  JobSpec job;
  job.model.network = list;
  job.batch.micro_batch_size = 4;
  EXPECT_THAT(ModelFlops(job),
              ElementsAre(Pair("palm", Flops{1440}), Pair("megatron", Flops{1440}),
                          Pair("torchtitan", Flops{1440}), Pair("causal", Flops{1440})));
}

TEST(HardwareFlops, SumsForwardAndBothGradients) {
  Workload workload;
  Operator op;
  op.forward.flops = Flops{1};
  op.backward_input.resize(2);
  op.backward_input[1].flops = Flops{10};
  op.backward_weight.resize(1);
  op.backward_weight[0].flops = Flops{100};
  workload.units = {{"unit", {op}}, {"other", {op}}};
  EXPECT_EQ(HardwareFlops(workload), Flops{222});
}

}  // namespace
}  // namespace stepsim
