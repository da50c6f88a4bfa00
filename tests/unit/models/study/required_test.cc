// Thresholds are where the target begins to hold; inferred rates are those that were simulated.
#include "models/study/required.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/simulate_job.h"
#include "models/spec/remembering_source.h"
#include "models/study/infer.h"
#include "models/study/whatif.h"
#include "sim/base/units.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr const char* kJob = "gpt2_ddp_32xa40_25gbe";

class StudyTest : public ::testing::Test {
 protected:
  JobVariants Variants(const std::string& job, Changes own = {}) {
    return JobVariants([this, job, own = std::move(own)](const Changes& changes) {
      Changes all = own;
      all.insert(all.end(), changes.begin(), changes.end());
      return LoadJob(job, all, source_);
    });
  }

 private:
  DirectoryConfigSource disk_ = testing::ShippedConfigs();
  RememberingSource source_{disk_};
};

TEST_F(StudyTest, BandwidthIsTheSmallestThatHolds) {
  const JobVariants variants = Variants(kJob);
  Trial trial(variants);
  const FreeVariable& network = *FindFreeVariable("network");
  const Target target{TargetKind::kExposed, 0.4};
  const Requirement found = FindRequired(trial, network, target);
  ASSERT_TRUE(found.needed);
  EXPECT_FALSE(found.is_always);
  const auto holds = [&](double value) {
    return Holds(target, trial.Try(network.set(trial.job(), value)));
  };
  EXPECT_TRUE(holds(found.needed->value));
  EXPECT_FALSE(holds(found.needed->value / 1.01));
  EXPECT_LE(found.needed->reached, target.value);
}

TEST_F(StudyTest, WholeNumbersAreExact) {
  const JobVariants variants = Variants(kJob);
  Trial trial(variants);
  const FreeVariable& steps = *FindFreeVariable("accumulation");
  const Target target{TargetKind::kExposed, 0.2};
  const Requirement found = FindRequired(trial, steps, target);
  ASSERT_TRUE(found.needed);
  const double least = found.needed->value;
  EXPECT_TRUE(Holds(target, trial.Try(steps.set(trial.job(), least))));
  EXPECT_FALSE(Holds(target, trial.Try(steps.set(trial.job(), least - 1))));
}

// 32 GPUs make one copy of the model: other numbers of nodes than multiples of 4 are none.
TEST_F(StudyTest, ValuesThatAreNoneForTheJobArePassedOver) {
  const JobVariants variants =
      Variants("gpt3-6.7b_megatron_32xh100", {"plan.tensor_parallel=8", "plan.pipeline_parallel=4",
                                              "batch.gradient_accumulation_steps=4"});
  Trial trial(variants);
  const FreeVariable& nodes = *FindFreeVariable("nodes");
  const auto try_nodes = [&](double value) { return trial.Try(nodes.set(trial.job(), value)); };
  EXPECT_THROW(try_nodes(6), ConfigError);
  const double few = ToSeconds(try_nodes(4).account().step);
  const double many = ToSeconds(try_nodes(4096).account().step);
  ASSERT_LT(few, many);
  const Target target{TargetKind::kStepTime, (few + many) / 2};
  const Requirement found = FindRequired(trial, nodes, target);
  ASSERT_TRUE(found.needed);
  EXPECT_FALSE(found.is_always);
  const double most = found.needed->value;
  EXPECT_EQ(std::fmod(most, 4), 0);
  EXPECT_TRUE(Holds(target, try_nodes(most)));
  EXPECT_FALSE(Holds(target, try_nodes(most + 4)));
}

// More samples take longer: the largest number is asked for, and more fail.
TEST_F(StudyTest, WhereMoreIsWorseTheMostIsFound) {
  const JobVariants variants = Variants(kJob);
  Trial trial(variants);
  const FreeVariable& tokens = *FindFreeVariable("tokens");
  const Target target{TargetKind::kStepTime, 1.2 * ToSeconds(trial.Try({}).account().step)};
  const Requirement found = FindRequired(trial, tokens, target);
  ASSERT_TRUE(found.needed);
  EXPECT_TRUE(found.is_reversed);
  const double most = found.needed->value;
  EXPECT_GE(most, tokens.now(trial.job()));  // as it is the target is reached
  EXPECT_TRUE(Holds(target, trial.Try(tokens.set(trial.job(), most))));
  EXPECT_FALSE(Holds(target, trial.Try(tokens.set(trial.job(), most + 1))));
}

// Neither the fewest nor the most nodes are the fastest: a target between is reached all the same.
TEST_F(StudyTest, ATargetThatOnlyTheMiddleReachesIsReached) {
  const JobVariants variants = Variants("llama-3-8b_fsdp2_16xh100");
  Trial trial(variants);
  const FreeVariable& nodes = *FindFreeVariable("nodes");
  const auto step = [&](double value) {
    return ToSeconds(trial.Try(nodes.set(trial.job(), value)).account().step);
  };
  ASSERT_LT(step(8), std::min(step(1), step(4096)));
  const Target target{TargetKind::kStepTime, (step(8) + std::min(step(1), step(4096))) / 2};
  const Requirement found = FindRequired(trial, nodes, target);
  ASSERT_TRUE(found.needed);
  EXPECT_TRUE(found.is_island);
  EXPECT_LE(step(found.needed->value), target.value);
}

// Compute alone takes longer than that, whatever the network.
TEST_F(StudyTest, SaysWhenNoValueReachesIt) {
  const JobVariants variants = Variants(kJob);
  Trial trial(variants);
  const Target target{TargetKind::kStepTime,
                      0.9 * ToSeconds(StepWithoutCommunication(variants.base().job))};
  const Requirement found = FindRequired(trial, *FindFreeVariable("network"), target);
  EXPECT_FALSE(found.needed);
  EXPECT_GT(found.best.reached, target.value);
}

TEST_F(StudyTest, OneGpuHasNoNetworkToFree) {
  const JobVariants variants = Variants(kJob, {"nodes=1", "gpus_per_node=1", "network=null"});
  EXPECT_NE(FindFreeVariable("network")->problem(variants.base().job), "");
}

// The rate at which a step was simulated is found from its time.
class InferTest : public StudyTest, public ::testing::WithParamInterface<double> {};

TEST_P(InferTest, FindsTheBandwidthOfASimulatedStep) {
  const JobVariants variants = Variants(kJob);
  Trial trial(variants);
  const FreeVariable& network = *FindFreeVariable("network");
  const double rate = network.now(trial.job()) * GetParam();
  const Duration step = trial.Try(network.set(trial.job(), rate)).account().step;
  const Inference found = Infer(trial, InferKind::kNetwork, step);
  ASSERT_TRUE(found.least && found.most);
  EXPECT_LE(*found.least, rate);
  EXPECT_GE(*found.most, rate);
  EXPECT_LT(*found.most / *found.least, 1.1);  // the step depends on it
  const InferVerdict expected = GetParam() < 0.5    ? InferVerdict::kBroken
                                : GetParam() < 0.75 ? InferVerdict::kSuspicious
                                : GetParam() <= 1   ? InferVerdict::kHealthy
                                                    : InferVerdict::kFaster;
  EXPECT_EQ(found.verdict, expected);
}
INSTANTIATE_TEST_SUITE_P(Factors, InferTest, ::testing::Values(0.1, 0.4, 0.6, 1.0, 2.0));

// Twice the bandwidth is slower here: NCCL chooses another algorithm. The predicted step still
// means the nominal rate, and a step at 0.3 of it those 0.3.
TEST_F(StudyTest, AStepThatIsNotMonotoneIsInferredNextToTheNominalRate) {
  const JobVariants variants = Variants("llama-2-7b_zero3_16xa100");
  Trial trial(variants);
  const FreeVariable& network = *FindFreeVariable("network");
  const double now = network.now(trial.job());
  const auto step = [&](double factor) {
    return trial.Try(network.set(trial.job(), now * factor)).account().step;
  };
  ASSERT_GT(step(1.5), step(1));  // else this tests nothing
  for (const double factor : {0.3, 1.0}) {
    const Inference found = Infer(trial, InferKind::kNetwork, step(factor));
    ASSERT_TRUE(found.least);
    EXPECT_LE(*found.least, now * factor * 1.003);
    EXPECT_GE(found.most.value_or(HUGE_VAL), now * factor / 1.003);
    EXPECT_EQ(found.verdict, factor == 1 ? InferVerdict::kHealthy : InferVerdict::kBroken);
  }
}

TEST_F(StudyTest, AHiddenNetworkGivesALowerBoundAlone) {
  const JobVariants variants = Variants("llama-3.2-3b_ddp_16xa100", {"batch.micro_batch_size=8"});
  Trial trial(variants);
  const Inference found = Infer(trial, InferKind::kNetwork, trial.Try({}).account().step);
  ASSERT_TRUE(found.least);
  EXPECT_FALSE(found.most);
  EXPECT_EQ(found.verdict, InferVerdict::kHealthy);
}

TEST_F(StudyTest, AStepShorterThanItsComputeIsNotExplainedByTheNetwork) {
  const JobVariants variants = Variants(kJob);
  Trial trial(variants);
  const Duration half = StepWithoutCommunication(variants.base().job) / 2;
  EXPECT_EQ(Infer(trial, InferKind::kNetwork, half).verdict, InferVerdict::kUnexplained);
}

// Kernels at half the speed take twice the time, but for what is fixed.
TEST_F(StudyTest, InfersTheSpeedOfKernels) {
  const JobVariants variants = Variants("gpt2_ddp_8xa100", {"plan.strategy=none"});
  Trial trial(variants);
  const Duration twice = 2 * trial.Try({}).account().step;
  const Inference found = Infer(trial, InferKind::kCompute, twice);
  ASSERT_TRUE(found.least && found.most);
  EXPECT_LT(*found.least, 0.5);
  EXPECT_GT(*found.most, 0.4);
}

TEST(SplitTogether, AtAPlusBeforeAPathAlone) {
  EXPECT_EQ(SplitTogether("nodes=4+plan.strategy=fsdp2"),
            (Changes{"nodes=4", "plan.strategy=fsdp2"}));
  EXPECT_EQ(SplitTogether("a.b=1e+3"), (Changes{"a.b=1e+3"}));
  EXPECT_EQ(SplitTogether("name=x+y"), (Changes{"name=x+y"}));
  EXPECT_EQ(SplitTogether("name=x+y=z"), (Changes{"name=x", "y=z"}));
}

TEST_F(StudyTest, AWhatIfThatIsWrongKeepsItsMessage) {
  const JobVariants variants = Variants(kJob);
  const WhatIf wrong = TryWhatIf(variants, "nodez=3");
  EXPECT_FALSE(wrong.report);
  EXPECT_TRUE(wrong.is_input_error);
  EXPECT_NE(wrong.error.find("did you mean 'nodes'"), std::string::npos);
  const WhatIf right = TryWhatIf(variants, "nodes=2+network=ethernet-100g");
  ASSERT_TRUE(right.report);
  EXPECT_EQ(right.report->context.gpus, 16);
}

}  // namespace
}  // namespace stepsim
