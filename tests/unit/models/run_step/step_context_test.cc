#include "models/step_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

StepContext ContextOf(const ResolvedJob& resolved) {
  return MakeStepContext(resolved, BuildWorkload(resolved.job));
}

const StepContext::Assumption* Find(const StepContext& context, const std::string& field) {
  const auto found = std::find_if(context.assumptions.begin(), context.assumptions.end(),
                                  [&](const auto& a) { return a.field == field; });
  return found == context.assumptions.end() ? nullptr : &*found;
}

// 2 nodes x 8 GPUs, one sequence of 4096 tokens each.
TEST(StepContext, CountsTheGlobalBatch) {
  const StepContext context = ContextOf(testing::LoadShipped("llama-3.2-3b_ddp_16xa100"));
  EXPECT_EQ(context.gpus, 16);
  EXPECT_EQ(context.samples_per_step, 16);
  EXPECT_EQ(context.tokens_per_step, 16 * 4096);
  EXPECT_EQ(context.peak.value, 312e12);  // A100 data sheet, bf16
  EXPECT_EQ(context.peak_dtype, DType::kBf16);
  EXPECT_EQ(context.gpu_memory, Bytes{std::int64_t{80} << 30});
}

// 8 GPUs x 5 micro-steps x 12 sequences of 1024 tokens: nanoGPT's half a million.
TEST(StepContext, CountsEveryMicrostep) {
  const StepContext context = ContextOf(testing::LoadShipped("gpt2_ddp_8xa100"));
  EXPECT_EQ(context.samples_per_step, 480);
  EXPECT_EQ(context.tokens_per_step, 491'520);
}

// Images have no tokens; a step of 64 of them counts 3 x forward on each of 8 GPUs.
TEST(StepContext, CountsSamplesWithoutTokens) {
  const ResolvedJob resolved = testing::LoadShipped("resnet-50_ddp_8xv100");
  const StepContext context = ContextOf(resolved);
  double forward = 0;
  for (const LayerSpec& layer : std::get<LayerListSpec>(resolved.job.model.network).layers) {
    forward += layer.forward_flops.value;
  }
  EXPECT_EQ(context.samples_per_step, 512);
  EXPECT_EQ(context.tokens_per_step, 0);
  EXPECT_DOUBLE_EQ(context.model_flops.front().second.value, 512 * 3 * forward);
}

// What the job says itself, or the command line, is no assumption; presets and defaults are.
TEST(StepContext, AssumesOnlyWhatNobodySaid) {
  const StepContext context =
      ContextOf(testing::LoadShipped("llama-3.2-3b_ddp_16xa100", {"precision.compute=fp16"}));
  EXPECT_EQ(Find(context, "nodes"), nullptr);
  EXPECT_EQ(Find(context, "batch.sequence_length"), nullptr);
  EXPECT_EQ(Find(context, "precision.compute"), nullptr);
  ASSERT_NE(Find(context, "plan.ddp.bucket_cap_mb"), nullptr);
  EXPECT_EQ(Find(context, "plan.ddp.bucket_cap_mb")->origin, "default");
  ASSERT_NE(Find(context, "hardware.gpu.gemm_efficiency"), nullptr);
  EXPECT_THAT(Find(context, "hardware.gpu.gemm_efficiency")->origin,
              HasSubstr("a100-80g-dgx.yaml:"));
}

// A job file called "d" must not claim every default.
TEST(StepContext, TellsFilesFromOtherOrigins) {
  ResolvedJob resolved = testing::LoadShipped("lesson_serial");
  resolved.job.file = "some/folder/d";
  resolved.origins = {{"a", "1", "default"}, {"b", "2", "d:3"}, {"c", "3", "dd:3"}};
  const StepContext context = ContextOf(resolved);
  ASSERT_EQ(context.assumptions.size(), 2u);
  EXPECT_EQ(context.assumptions[0].field, "a");
  EXPECT_EQ(context.assumptions[1].field, "c");
}

TEST(StepContext, NamesAJobWithoutAName) {
  ResolvedJob resolved = testing::LoadShipped("gpt2_ddp_8xa100");
  resolved.job.name.clear();
  EXPECT_THAT(ContextOf(resolved).job, AllOf(HasSubstr("gpt2"), HasSubstr("ddp"), HasSubstr("8")));
}

// 1F1B keeps min(m, p - stage) micro-batches (Megatron-LM, arXiv 2104.04473), on whichever copy of
// the stage.
TEST(InFlight, IsTheSchedulesOwn) {
  for (const std::string microbatches : {"8", "3"}) {
    for (const std::string ranks : {"folded", "all"}) {
      const std::vector<std::string> sets = {"plan.pipeline_parallel=4", "simulate.ranks=" + ranks,
                                             "plan.pipeline.schedule=1f1b",
                                             "batch.gradient_accumulation_steps=" + microbatches};
      const StepReport report = RunStep(testing::LoadShipped("gpt2_ddp_8xa100", sets)).report;
      ASSERT_EQ(report.in_flight.size(), ranks == "all" ? 8u : 4u);
      for (std::size_t i = 0; i < report.in_flight.size(); ++i) {
        const int stage = report.rank_infos[i].name.back() - '0';
        EXPECT_EQ(report.in_flight[i], std::min(std::stoi(microbatches), 4 - stage)) << i;
      }
    }
  }
  EXPECT_TRUE(RunStep(testing::LoadShipped("gpt2_ddp_8xa100")).report.in_flight.empty());
}

// A job without communication has no links to doubt.
TEST(AddTrust, SpeaksOfWhatTheJobUses) {
  const auto confidence = [](const std::vector<std::string>& sets) {
    return RunStep(testing::LoadShipped("gpt2_ddp_8xa100", sets)).report.context.confidence;
  };
  EXPECT_THAT(confidence({}),
              AllOf(HasSubstr("kernels and links"), HasSubstr("collectives within")));
  // 15.9 % in results/validation; kernels and collectives share one "(median)".
  EXPECT_THAT(confidence({"collectives.corrections=none"}),
              AllOf(EndsWith("collectives without corrections within 16% (median)"),
                    Not(HasSubstr(") ("))));
  EXPECT_THAT(
      confidence({"collectives.model=alpha_beta"}),
      EndsWith(" (median), collectives by the alpha_beta model, held against no measurement"));
  EXPECT_THAT(confidence({"gpus_per_node=1"}),
              Not(AnyOf(HasSubstr("links"), HasSubstr("collectives"))));
}

// One measured point per curve: every other size lies outside, which doubles the expected error and
// is an assumption.
TEST(AddTrust, WidensBeyondTheMeasuredSizes) {
  ResolvedJob resolved = testing::LoadShipped("gpt2_ddp_8xa100");
  const StepContext before = RunStep(resolved).report.context;
  resolved.job.hardware.calibration = {{"all_reduce", 1, 8, Bytes{1}, Duration{20'000'000}}};
  const StepContext after = RunStep(resolved).report.context;
  const auto is_extrapolated = [](const StepContext::Assumption& assumption) {
    return assumption.origin == "extrapolated beyond the calibrated sizes";
  };
  EXPECT_TRUE(std::none_of(before.assumptions.begin(), before.assumptions.end(), is_extrapolated));
  EXPECT_TRUE(std::any_of(after.assumptions.begin(), after.assumptions.end(), is_extrapolated));
  EXPECT_THAT(after.confidence, HasSubstr("outside the measured sizes"));
}

}  // namespace
}  // namespace stepsim
