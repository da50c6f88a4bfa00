// What a job says about its pipeline is wrong where the schedule, the layers or the runtime do not
// admit it: the message names the place, what was found and the nearest that is valid.
#include "models/spec/pipeline_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "sim/base/diagnostics.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob =
    "{model: llama-3-8b, hardware: h100-sxm-dgx, batch: {sequence_length: 1024, "
    "gradient_accumulation_steps: 8}, plan: {strategy: fsdp2, pipeline_parallel: 4}}";

std::string ProblemsOf(const std::vector<std::string>& sets) {
  try {
    testing::LoadText(kJob, sets);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(PipelineRules, AdmitsEverySchedule) {
  for (const ScheduleRow& row : Schedules()) {
    const std::string name = "plan.pipeline.schedule=" + std::string(row.name);
    EXPECT_EQ(ProblemsOf({name}), "") << row.name;
  }
}

// Joined passes: the schedule must have them, and exchanges that one hides of the other.
TEST(PipelineRules, JoinedPassesNeedASchedule) {
  const std::string on = "plan.pipeline.overlap_forward_backward=true";
  const std::vector<std::string> mixtral = {on, "model=mixtral-8x7b", "plan.strategy=megatron",
                                            "plan.expert_parallel=2",
                                            "batch.gradient_accumulation_steps=8"};
  const auto with = [&](const std::string& schedule) {
    std::vector<std::string> sets = mixtral;
    sets.push_back("plan.pipeline.schedule=" + schedule);
    return ProblemsOf(sets);
  };
  EXPECT_EQ(with("dualpipe"), "");
  EXPECT_EQ(with("dualpipev"), "");
  EXPECT_THAT(with("zbv"), HasSubstr("found 'true' with schedule zbv, which joins no forward and "
                                     "backward, allowed: false, or with dualpipe, dualpipev or"));
  EXPECT_THAT(ProblemsOf({on, "plan.pipeline.schedule=dualpipev"}),
              HasSubstr("has no effect with a model without experts"));
}

TEST(PipelineRules, NamesTheNearest) {
  EXPECT_THAT(ProblemsOf({"plan.pipeline.schedule=zvb"}), HasSubstr("did you mean 'zbv'?"));
  EXPECT_THAT(ProblemsOf({"plan.pipeline.schedule=zbv", "plan.pipeline.virtual_stages=3"}),
              HasSubstr("plan.pipeline.virtual_stages: zbv: found 3"));
  EXPECT_THAT(
      ProblemsOf({"plan.pipeline.schedule=dualpipe", "batch.gradient_accumulation_steps=6"}),
      HasSubstr("batch.gradient_accumulation_steps: dualpipe: found 6 micro-batches"));
}

// Llama 3 8B has 32 layers.
TEST(PipelineRules, LayersFillTheStages) {
  EXPECT_THAT(
      ProblemsOf({"plan.pipeline.schedule=interleaved_1f1b", "plan.pipeline.virtual_stages=16"}),
      HasSubstr("= 64 stages, allowed: at most the 32 layers of model llama-3-8b; nearest "
                "valid: 4 x 8"));
  EXPECT_THAT(ProblemsOf({"plan.pipeline.layers_per_stage=[8,8,8]"}),
              HasSubstr("found 3 numbers that sum to 24, allowed: one for each of the 4 "
                        "stages, 32 layers in all"));
  EXPECT_THAT(ProblemsOf({"plan.pipeline.layers_per_stage=[8.5,7.5,8,8]"}),
              HasSubstr("found 8.5 in stage 0, allowed: whole numbers"));
  EXPECT_EQ(ProblemsOf({"plan.pipeline.layers_per_stage=[7,9,9,7]"}), "");
  EXPECT_THAT(
      ProblemsOf({"plan.strategy=megatron", "plan.pipeline_parallel=4",
                  "plan.pipeline.schedule=interleaved_1f1b", "plan.pipeline.virtual_stages=3"}),
      HasSubstr("32 layers do not come out even over 12 stages, as Megatron-LM wants them"));
}

// A stage of nothing has nothing to run, to receive or to send.
TEST(PipelineRules, StagesBetweenTheEndsHaveLayers) {
  EXPECT_EQ(ProblemsOf({"plan.pipeline.layers_per_stage=[0,16,16,0]"}), "");
  EXPECT_THAT(ProblemsOf({"plan.pipeline.layers_per_stage=[16,16,0,0]"}),
              HasSubstr("found no layer in stage 2 (of 0 to 3), allowed: 0 in the first"));
}

// Without data parallelism too.
TEST(PipelineRules, DegreesOfIndependentReplicas) {
  EXPECT_EQ(ProblemsOf({"plan.strategy=none", "collectives.algorithm=ring"}), "");
  EXPECT_THAT(ProblemsOf({"plan.strategy=none", "plan.pipeline_parallel=3"}),
              HasSubstr("must divide nodes x gpus_per_node (1 x 8 = 8)"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=none", "plan.mesh_order=tp-dp"}),
              HasSubstr("plan.mesh_order: found 'tp-dp'"));
}

TEST(PipelineRules, KeysOfTheOtherRuntime) {
  EXPECT_THAT(ProblemsOf({"plan.pipeline.batch_p2p_sync=false"}),
              HasSubstr("plan.pipeline.batch_p2p_sync: has no effect with PyTorch's runtime"));
  EXPECT_THAT(ProblemsOf({"plan.strategy=megatron", "plan.pipeline.eager_communicators=true"}),
              HasSubstr("has no effect with Megatron-LM's runtime"));
  EXPECT_THAT(
      ProblemsOf({"plan.pipeline.layers_per_stage=[7,9,9,7]", "plan.pipeline.balance=time"}),
      HasSubstr("plan.pipeline.balance: has no effect with plan.pipeline.layers_per_stage"));
  EXPECT_THAT(ProblemsOf({"plan.pipeline_parallel=1"}), "");
  EXPECT_THAT(ProblemsOf({"plan.pipeline_parallel=1", "plan.pipeline.schedule=zbv"}),
              HasSubstr("plan.pipeline: has no effect with plan.pipeline_parallel: 1"));
}

class ScheduleFileTest : public ::testing::Test {
 protected:
  std::string ProblemsOfFile(const std::string& text) {
    std::ofstream(path_) << text;
    return ProblemsOf({"plan.pipeline_parallel=2", "gpus_per_node=2",
                       "batch.gradient_accumulation_steps=1", "plan.pipeline.schedule=" + path_});
  }
  ~ScheduleFileTest() override { std::remove(path_.c_str()); }

  // Tests run beside each other.
  std::string path_ = ::testing::TempDir() + "pipeline_rules_" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";
};

TEST_F(ScheduleFileTest, IsReadAndChecked) {
  EXPECT_EQ(ProblemsOfFile("0F0,0B0\n1F0,1B0\n"), "");
  EXPECT_THAT(ProblemsOfFile("0F0,0B0\n1B0,1F0\n"),
              HasSubstr("its ranks wait for each other in a circle"));
  EXPECT_THAT(ProblemsOfFile("0F0,0B0\n1F0\n"), HasSubstr(path_ + ":2"));
  EXPECT_THAT(ProblemsOfFile(""), HasSubstr(path_));
  EXPECT_THAT(ProblemsOfFile("0F0,0B\n1F0,1B0\n"), HasSubstr(path_ + ":1:7: found ''"));
  EXPECT_THAT(ProblemsOfFile("0F0,0B\n1F0,1B0\n"),
              ::testing::Not(HasSubstr("allowed: a file that ends with")));
  EXPECT_THAT(ProblemsOfFile("model: llama-3-8b\n"), HasSubstr(path_ + ":1:1"));
  EXPECT_THAT(ProblemsOfFile("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"),
              HasSubstr("batch.gradient_accumulation_steps: found 1, allowed: the 2 of"));
}

TEST_F(ScheduleFileTest, HasToBeThere) {
  EXPECT_THAT(ProblemsOf({"plan.pipeline.schedule=nowhere.csv"}), HasSubstr("nowhere.csv"));
}

}  // namespace
}  // namespace stepsim
