#include "models/study/step_condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/study/try_step.h"
#include "sim/base/diagnostics.h"
#include "sim/metrics/metric_table.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

class StepConditionTest : public ::testing::Test {
 protected:
  ResolvedJob resolved_ = testing::LoadShipped("gpt2_ddp_32xa40_25gbe");
  StepReport report_ = TryStep(resolved_);

  bool Holds(const std::string& text) const {
    const StepCondition condition(text, {});
    return condition.condition().Holds(condition.Values(resolved_.job, &report_));
  }
};

TEST_F(StepConditionTest, FieldsAreThoseOfTheJob) {
  EXPECT_TRUE(Holds("nodes * gpus_per_node == 32"));
  EXPECT_TRUE(Holds("plan.strategy == ddp"));
  EXPECT_TRUE(Holds("hardware.network.link.bandwidth == 25 Gb/s"));
  EXPECT_TRUE(Holds("network.link.bandwidth <= 3.125 GB/s"));
  EXPECT_TRUE(Holds("hardware.gpu.memory >= 40 GiB"));
  EXPECT_FALSE(Holds("plan.ddp.find_unused_parameters"));
}

// Each short name is what its metric says.
TEST_F(StepConditionTest, ShortNamesAreMetrics) {
  const double step = report_.step_time_s();
  EXPECT_TRUE(Holds("step_time == step_time_s"));
  EXPECT_TRUE(Holds("memory == peak_memory_bytes"));
  EXPECT_TRUE(Holds("exposed == exposed_total_s / step_time_s"));
  EXPECT_TRUE(Holds("bubble == bubble_fraction"));
  EXPECT_TRUE(Holds("mfu == mfu_" + report_.context.mfu_convention));
  EXPECT_TRUE(Holds("step_time_s > " + std::to_string(step * 0.99)));
  EXPECT_FALSE(Holds("step_time_s > " + std::to_string(step * 1.01)));
  EXPECT_TRUE(Holds("tflops_per_gpu < hardware.gpu.peak.bf16"));  // 149.7 TFLOP/s of an A40
}

TEST_F(StepConditionTest, KnowsBeforeTheStepWhatNeedsOne) {
  EXPECT_FALSE(StepCondition("nodes > 4 and plan.strategy == ddp", {}).UsesStep());
  EXPECT_TRUE(StepCondition("nodes > 4 and exposed > 5%", {}).UsesStep());
  const StepCondition fields("nodes > 4", {});
  EXPECT_EQ(fields.Values(resolved_.job, nullptr).size(), 1u);
}

TEST(StepConditionNames, AreAllDifferent) {
  std::set<std::string_view> names;
  for (const StepName& row : StepNames()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  for (const Metric& metric : Metrics()) EXPECT_TRUE(names.insert(metric.name).second);
  for (const JobField& field : ScalarJobFields()) {
    EXPECT_TRUE(names.insert(field.path()).second) << field.path();
  }
}

TEST(StepConditionNames, UnknownOnesAreNamedWithTheNearest) {
  try {
    StepCondition("exposd > 5%", {"--fail-if exposd > 5%", 0, 0});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.diagnostics().front().ToString(), HasSubstr("did you mean 'exposed'?"));
  }
}

// "exposed > 5" would never hold: 5% is meant.
TEST_F(StepConditionTest, SharesAreNotComparedWithPercentagesWithoutASign) {
  for (const char* text : {"exposed > 5", "40 > mfu", "mfu_palm < 40", "bubble + exposed > 5"}) {
    EXPECT_THROW(StepCondition(text, {}), ConfigError) << text;
  }
  for (const char* text : {"exposed > 5%", "exposed > 0.05", "mfu < 1", "exposed * 100 > 5"}) {
    EXPECT_NO_THROW(StepCondition(text, {})) << text;
  }
}

}  // namespace
}  // namespace stepsim
