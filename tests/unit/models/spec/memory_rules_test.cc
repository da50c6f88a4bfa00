// Keys of recomputation and memory: what has no effect, what contradicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

constexpr const char* kJob = R"(model:
  name: tiny
  transformer:
    {layers: 4, hidden_size: 64, heads: 4, ffn_size: 128, vocab_size: 1000}
hardware: a100-80g-dgx
plan: {strategy: none}
batch: {micro_batch_size: 1, sequence_length: 128}
)";

ResolvedJob Load(const std::string& text, const std::vector<std::string>& sets) {
  return LoadJobText(text, "job.yaml", sets, DirectoryConfigSource(STEPSIM_SOURCE_DIR "/configs"));
}

std::string ErrorOf(const std::vector<std::string>& sets) {
  try {
    Load(kJob, sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RecomputeKeys, FrameworksSpellingsAreAliases) {
  const JobSpec megatron =
      Load(std::string(kJob) +
               "recompute: {recompute_granularity: full, recompute_method: block, "
               "recompute_num_layers: 2}\n",
           {})
          .job;
  EXPECT_TRUE(megatron.recompute.IsFull());
  EXPECT_EQ(megatron.recompute.method, RecomputeMethod::kBlock);
  EXPECT_EQ(megatron.recompute.num_layers, 2);
  const JobSpec torchtitan =
      Load(std::string(kJob) + "activation_checkpoint: {mode: selective, policy: op}\n", {}).job;
  EXPECT_TRUE(torchtitan.recompute.IsSelective(RecomputePolicy::kOp));
}

TEST(RecomputeKeys, WithoutEffect) {
  EXPECT_EQ(ErrorOf({"recompute.method=block"}),
            "--set recompute.method=block: recompute.method: has no effect with a "
            "recompute.granularity that is not full");
  EXPECT_EQ(
      ErrorOf({"recompute.granularity=full", "recompute.modules.mlp=true"}),
      "--set recompute.modules.mlp=true: recompute.modules: has no effect with recompute that "
      "is not selective with policy: modules");
  EXPECT_EQ(ErrorOf({"recompute.early_stop=true"}),
            "--set recompute.early_stop=true: recompute.early_stop: has no effect with "
            "recompute.granularity: none");
}

TEST(RecomputeKeys, AtMostTheLayersOfTheModel) {
  EXPECT_EQ(ErrorOf({"recompute.granularity=full", "recompute.num_layers=5"}),
            "--set recompute.num_layers=5: recompute.num_layers: found 5, allowed: at most the 4 "
            "layers of model tiny");
  EXPECT_EQ(ErrorOf({"recompute.granularity=full", "recompute.num_layers=4"}), "no error");
}

TEST(RecomputeKeys, SomeModule) {
  EXPECT_EQ(ErrorOf({"recompute.granularity=selective", "recompute.modules.core_attn=false"}),
            "--set recompute.modules.core_attn=false: recompute.modules: found none, allowed: at "
            "least one of core_attn, mlp, layernorm, moe");
}

// A checkpoint of several layers would gather parameters that FSDP's backward has not asked for.
TEST(RecomputeKeys, CheckpointsLieInsideFsdpUnits) {
  EXPECT_THAT(
      ErrorOf({"recompute.granularity=full", "recompute.num_layers=2", "plan.strategy=fsdp2"}),
      ::testing::HasSubstr("recompute.num_layers: found 2 with plan.strategy: fsdp2, "
                           "allowed: 1"));
}

}  // namespace
}  // namespace stepsim
