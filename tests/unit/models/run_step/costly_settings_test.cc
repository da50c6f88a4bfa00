// Are settings that cost time for nothing named, with the price that the simulation of the
// alternative gives? What the strategies send is the frameworks' semantics (models/README.md).
#include "models/costly_settings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kDdp = "gpt2_ddp_8xa100";  // five micro-steps
constexpr const char* kFsdp2 = "llama-3-8b_fsdp2_16xh100";

StepReport ReportOf(const std::string& job, const std::vector<std::string>& sets) {
  return RunStep(testing::LoadShipped(job, sets)).report;
}

TEST(AddCostlySettings, TheNumbersAreThoseOfTheTwoJobs) {
  const StepReport every = ReportOf(kDdp, {"plan.ddp.no_sync=false"});
  const StepReport once = ReportOf(kDdp, {});
  EXPECT_THAT(once.context.warnings, IsEmpty());
  ASSERT_EQ(every.context.warnings.size(), 1u);
  EXPECT_THAT(
      every.context.warnings[0],
      HasSubstr(fmt::format("gradients are reduced in each of 5 micro-steps: step {} -> {}",
                            FormatTime(every.account().step), FormatTime(once.account().step))));
}

TEST(AddCostlySettings, SilentWithoutAccumulationOrPeers) {
  EXPECT_THAT(ReportOf(kDdp, {"plan.ddp.no_sync=false", "gpus_per_node=1"}).context.warnings,
              IsEmpty());
  EXPECT_THAT(ReportOf(kFsdp2, {}).context.warnings, IsEmpty());
}

// FSDP2 reduces per micro-step by default; over a slow network that shows.
TEST(AddCostlySettings, ShardedGradientsPerMicrostep) {
  const auto warnings = ReportOf(kFsdp2, {"batch.gradient_accumulation_steps=4",
                                          "hardware.network.link.bandwidth=25 Gb/s"})
                            .context.warnings;
  EXPECT_THAT(warnings, Contains(HasSubstr("plan.fsdp2.requires_gradient_sync: false")));
  EXPECT_THAT(warnings, Contains(HasSubstr("parameters are gathered in each of 4 micro-steps")));
}

// Stage 1 sends once: nothing to say. Stage 2 cannot: the stage is the knob.
TEST(AddCostlySettings, ZeroByStage) {
  const std::vector<std::string> zero = {"plan.fsdp2=null", "plan.strategy=zero",
                                         "batch.gradient_accumulation_steps=4",
                                         "hardware.network.link.bandwidth=25 Gb/s"};
  const auto with_stage = [&](const std::string& stage) {
    std::vector<std::string> sets = zero;
    sets.push_back("plan.zero.stage=" + stage);
    return ReportOf(kFsdp2, sets).context.warnings;
  };
  EXPECT_THAT(with_stage("1"), Not(Contains(HasSubstr("micro-steps"))));
  EXPECT_THAT(with_stage("2"), Contains(HasSubstr("with plan.zero.stage: 1")));
}

// A key that the change leaves without effect would be refused beside it: it has to go as well.
TEST(AddCostlySettings, NamesTheKeysThatHaveToGo) {
  const std::vector<std::string> slow = {"batch.gradient_accumulation_steps=4",
                                         "hardware.network.link.bandwidth=25 Gb/s"};
  std::vector<std::string> zero = {"plan.fsdp2=null", "plan.strategy=zero", "plan.zero.stage=3",
                                   "plan.zero.stage3_leaf_modules=layers"};
  zero.insert(zero.end(), slow.begin(), slow.end());
  EXPECT_THAT(ReportOf(kFsdp2, zero).context.warnings,
              Contains(HasSubstr("with plan.zero.stage: 1, plan.zero.stage3_leaf_modules: null")));
  zero.push_back("plan.zero.stage=1");
  EXPECT_THROW(testing::LoadShipped(kFsdp2, zero), ConfigError);
  zero.push_back("plan.zero.stage3_leaf_modules=null");
  EXPECT_NO_THROW(testing::LoadShipped(kFsdp2, zero));
}

// The hybrid strategies have a form that keeps parameters, too.
TEST(AddCostlySettings, HybridShards) {
  const auto warnings =
      ReportOf("gpt2-xl_fsdp1_16xa40_25gbe",
               {"plan.fsdp1.sharding_strategy=HYBRID_SHARD", "batch.gradient_accumulation_steps=4"})
          .context.warnings;
  EXPECT_THAT(warnings, Contains(HasSubstr("sharding_strategy: _HYBRID_SHARD_ZERO2 with no_sync")));
}

// A key of stage 3 would be refused in stage 1.
TEST(AddCostlySettings, KeysOfTheOtherCaseAreTakenOut) {
  const auto warnings =
      ReportOf("llama-2-7b_zero3_16xa100",
               {"batch.gradient_accumulation_steps=4", "plan.zero.stage3_prefetch_bucket_size=1e6"})
          .context.warnings;
  EXPECT_THAT(warnings, Contains(HasSubstr("with plan.zero.stage: 1, "
                                           "plan.zero.stage3_prefetch_bucket_size: null")));
}

// UC050: Megatron's tensor parallelism wants one hardware queue, FSDP2 wants many.
TEST(AddCostlySettings, OneHardwareQueueUnderFsdp2) {
  const auto warnings = [](const std::string& connections) {
    return ReportOf(kFsdp2, {"host.max_connections=" + connections}).context.warnings;
  };
  EXPECT_THAT(warnings("1"), Contains(HasSubstr("host.max_connections: 32")));
  EXPECT_THAT(warnings("32"), IsEmpty());
}

// ... whose launcher refuses others before Blackwell: at worst nothing hides behind the products.
TEST(AddCostlySettings, SeveralHardwareQueuesUnderMegatronsTensorParallelism) {
  const auto report = [](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"plan.tensor_parallel=8", "batch.global_batch_size=null",
                             "batch.gradient_accumulation_steps=2"});
    return ReportOf("gpt3-6.7b_megatron_32xh100", sets);
  };
  constexpr const char* kWarning = "Megatron-LM demands one for tensor parallelism";
  const StepReport many = report({"host.max_connections=8"});
  const StepReport exposed =
      report({"plan.tensor.async_input_gradient=false", "host.max_connections=8"});
  EXPECT_THAT(
      many.context.warnings,
      Contains(AllOf(HasSubstr(kWarning),
                     HasSubstr(fmt::format("step {} -> {} (+", FormatTime(many.account().step),
                                           FormatTime(exposed.account().step))),
                     HasSubstr("without host.max_connections: 1"))));
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{},  // nobody said how many
        {"host.max_connections=1"},
        {"host.max_connections=8", "plan.tensor.async_input_gradient=false"},
        {"host.max_connections=8", "hardware=b200-dgx"}}) {
    EXPECT_THAT(report(sets).context.warnings, Not(Contains(HasSubstr(kWarning))));
  }
}

// The one queue that tensor parallelism wants costs the gradients' overlap: both are said.
TEST(AddCostlySettings, TheQueueThatTensorParallelismWants) {
  const StepReport one = ReportOf(
      "gpt3-6.7b_megatron_32xh100",
      {"plan.tensor_parallel=2", "batch.global_batch_size=null", "batch.micro_batch_size=1",
       "batch.gradient_accumulation_steps=1", "host.max_connections=1"});
  EXPECT_THAT(one.context.warnings,
              Contains(AllOf(HasSubstr("which Megatron-LM demands for tensor parallelism"),
                             HasSubstr("with host.max_connections: 32"))));
}

}  // namespace
}  // namespace stepsim
