#include "models/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Duration Ms(std::int64_t ms) { return Duration{ms * 1'000'000'000}; }

// 60 ms of compute, 30 of exposed gradients, 10 of host.
StepSide Side() {
  StepSide side;
  side.name = "a";
  side.account.step = Ms(100);
  side.account.compute = Ms(60);
  side.account.exposed[0] = Ms(30);
  side.account.host = Ms(10);
  side.account.communication = Ms(50);
  side.account.profiler_exposed = Ms(30);
  side.sites[Site::kGradientReduce] = {4, Ms(50), {}, Ms(20), Ms(30)};
  side.classes = {{Ms(40), Ms(15), Ms(5)}};
  return side;
}

double Sum(const Comparison& c, double ComparedRow::*side) {
  double sum = 0;
  for (const ComparedRow& row : c.rows) {
    if (row.group == "account" && row.name != "step") sum += row.*side;
  }
  return sum;
}

TEST(Compare, EqualStepsAreAsPredicted) {
  const Comparison c = Compare(Side(), Side());
  EXPECT_EQ(c.step_error(), 0);
  EXPECT_EQ(c.exposed_error(), 0);
  ASSERT_EQ(c.verdict.size(), 1u);
  EXPECT_EQ(c.verdict[0], "The step is as predicted: 100 ms predicted, 100 ms measured.");
}

// The parts of both sides add up to their steps: the difference has no rest.
TEST(Compare, PartsAddUp) {
  StepSide measured = Side();
  measured.account.step = Ms(150);
  measured.account.compute = Ms(70);
  measured.account.contention = Ms(5);
  measured.account.exposed[1] = Ms(35);
  const Comparison c = Compare(Side(), measured);
  EXPECT_NEAR(Sum(c, &ComparedRow::predicted), 0.100, 1e-15);
  EXPECT_NEAR(Sum(c, &ComparedRow::measured), 0.150, 1e-15);
  EXPECT_NEAR(c.step_error(), 100.0 / 150 - 1, 1e-15);
}

TEST(Compare, TheLargestDifferenceComesFirst) {
  StepSide measured = Side();
  measured.account.step = Ms(125);
  measured.account.exposed[0] = Ms(50);
  measured.account.profiler_exposed = Ms(50);
  measured.account.compute = Ms(65);
  measured.classes = {{Ms(45), Ms(15), Ms(5)}};
  measured.sites[Site::kGradientReduce].transfer = Ms(70);
  const Comparison c = Compare(Side(), measured);
  ASSERT_EQ(c.verdict.size(), 6u);
  EXPECT_EQ(c.verdict[0], "The prediction is 20.0% too short: 100 ms predicted, 125 ms measured.");
  EXPECT_EQ(c.verdict[1],
            "exposed: 20.0 ms more than predicted (16.0% of the step), communication is less "
            "hidden.");
  EXPECT_THAT(c.verdict[2], HasSubstr("compute: 5.00 ms more than predicted (4.0% of the step)"));
  EXPECT_EQ(c.verdict[3], "Of the kernels gemm differs most: 40.0 ms predicted, 45.0 ms measured.");
  EXPECT_EQ(c.verdict[4], "Transfers of gradient_reduce take 70.0 ms instead of 50.0 ms.");
  EXPECT_THAT(c.verdict[5],
              HasSubstr("Next: `stepsim infer JOB --step-time MEASURED --free network`"));
  EXPECT_NEAR(c.exposed_error(), -20.0 / 125, 1e-15);
}

TEST(Compare, ASiteOnOneSideIsNamed) {
  StepSide measured = Side();
  measured.sites[Site::kExpertParallel] = {1, Ms(1), {}, Ms(1), {}};
  EXPECT_THAT(Compare(Side(), measured).verdict,
              Contains(HasSubstr("expert_parallel is measured but not predicted")));
}

TEST(Compare, OnlyResultsAreRead) {
  for (const char* text :
       {"", "[]", "{}", "{\"schema\": \"stepsim.result/2\"}", "{\"schema\": \"stepsim.result/1\"}",
        "{\"schema\": \"stepsim.result/1\", \"step_time_s\": \"x\"}",
        "{\"schema\": \"stepsim.result/1\", \"step_time_s\": 1e300}"}) {
    EXPECT_THROW(ReadResultSide(text, "r.json"), ConfigError) << text;
  }
}

}  // namespace
}  // namespace stepsim
