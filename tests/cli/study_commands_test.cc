// whatif, required and infer from the outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using Study = testing::Cli;
using Json = nlohmann::json;

// Two GPUs sum 1e9 gradients of fp32, all of them behind the last kernel: 2 (n-1)/n x 4 GB at
// 100 GB/s are 40 ms.
const char kJob[] = R"(name: round numbers
model:
  name: one layer
  layers:
    - {name: a, parameters: [{name: a.weight, elements: 1000000000}], forward_flops: 1 TFLOP}
hardware: {base: ideal, gpus_per_node: 2, intra_node: {bandwidth: 100 GB/s, latency: 0 us}}
optimizer: none
contention: off
precision: {compute: bf16, parameters: fp32}
plan: {ddp: {gradient_as_bucket_view: true}}
collectives: {model: alpha_beta}
)";

double StepOf(const std::vector<std::string>& run) {
  std::vector<std::string> all = run;
  all.insert(all.end(), {"-q", "--export", "-"});
  return Json::parse(Ask(all).out)["step_time_s"];
}

TEST_F(Study, WhatIfHasALineForEachChange) {
  const std::string job = Write("job.yaml", kJob);
  const Answer answer =
      Ask({"whatif", job, "--set", "hardware.intra_node.bandwidth=200 GB/s", "--set",
           "hardware.intra_node.bandwidth=200 GB/s+precision.parameters=bf16", "--export",
           Path("lines.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json rows = Json::parse(ReadAll(Path("lines.json")))["rows"];
  ASSERT_EQ(rows.size(), 3);
  const auto exposed = [&](std::size_t row) { return double{rows[row]["exposed_total_s"]}; };
  EXPECT_NEAR(exposed(0), 0.040, 1e-9);
  EXPECT_NEAR(exposed(1), 0.020, 1e-9);
  EXPECT_NEAR(exposed(2), 0.010, 1e-9);
  EXPECT_EQ(rows[1]["step_time_s"],
            StepOf({"run", job, "--set", "hardware.intra_node.bandwidth=200 GB/s"}));
}

// One that is wrong does not hide the others.
TEST_F(Study, WhatIfShowsWhatIsRightBesideWhatIsWrong) {
  const std::string job = Write("job.yaml", kJob);
  const Answer answer = Ask({"whatif", job, "--set", "nodez=2", "--set", "plan.strategy=none"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.out, HasSubstr("plan.strategy=none"));
  EXPECT_THAT(answer.err, HasSubstr("did you mean 'nodes'?"));
  EXPECT_EQ(Ask({"whatif", job}).status, kExitInput);
}

// Base and line together: fp32 at 200 GB/s.
TEST_F(Study, WhatIfTakesSettingsOfTheJobItself) {
  const std::string job = Write("job.yaml", kJob);
  Ask({"whatif", job, "--base", "hardware.intra_node.bandwidth=200 GB/s", "--set", "kernels=null",
       "--export", Path("lines.json")});
  const Json rows = Json::parse(ReadAll(Path("lines.json")))["rows"];
  EXPECT_NEAR(double{rows[0]["exposed_total_s"]}, 0.020, 1e-9);
}

// compute + 4 GB / B <= compute + 10 ms from B = 400 GB/s on.
TEST_F(Study, RequiredFindsTheBandwidth) {
  const std::string job = Write("job.yaml", kJob);
  const double step = StepOf({"run", job}) - 0.030;
  const Answer answer = Ask({"required", job, "--step-time", std::to_string(step) + " s", "--free",
                             "network", "--export", Path("answer.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json row = Json::parse(ReadAll(Path("answer.json")))["rows"][0];
  EXPECT_NEAR(double{row["needed"]}, 400e9, 0.01 * 400e9);
  EXPECT_THAT(answer.out, HasSubstr("at least 4"));
}

TEST_F(Study, RequiredWantsOneTarget) {
  const std::string job = Write("job.yaml", kJob);
  EXPECT_EQ(Ask({"required", job}).status, kExitInput);
  EXPECT_EQ(Ask({"required", job, "--mfu", "40%", "--exposed", "5%"}).status, kExitInput);
  for (const char* wrong : {"5", "-1%", "five", "", "nan", "0"}) {
    const Answer answer = Ask({"required", job, "--exposed", wrong});
    EXPECT_EQ(answer.status, kExitInput) << wrong;
  }
  EXPECT_THAT(Ask({"required", job, "--mfu", "40%", "--free", "netwrok"}).err,
              HasSubstr("did you mean 'network'?"));
}

// 40 ms become 80 ms: half the bandwidth, or slower kernels.
TEST_F(Study, InferFindsTheBandwidthOfAMeasuredStep) {
  const std::string job = Write("job.yaml", kJob);
  const double step = StepOf({"run", job}) + 0.040;
  const Answer answer = Ask({"infer", job, "--step-time", std::to_string(step * 1000) + " ms",
                             "--export", Path("answer.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json rows = Json::parse(ReadAll(Path("answer.json")))["rows"];
  ASSERT_EQ(rows.size(), 2);
  EXPECT_LE(double{rows[0]["least"]}, 50.1e9);
  EXPECT_GE(double{rows[0]["most"]}, 49.9e9);
  EXPECT_EQ(rows[1]["free"], "compute");
}

TEST_F(Study, InferRefusesWhatIsNoTime) {
  const std::string job = Write("job.yaml", kJob);
  for (const char* wrong : {"4.6", "-1 s", "fast", "1e9 s", "0 s"}) {
    EXPECT_EQ(Ask({"infer", job, "--step-time", wrong}).status, kExitInput) << wrong;
  }
  EXPECT_EQ(Ask({"infer", job}).status, kExitInput);
  EXPECT_THAT(Ask({"infer", job, "--step-time", "1 s", "--free", "memory"}).err,
              HasSubstr("allowed: network, compute"));
}

// Standard output is the table's alone.
TEST_F(Study, ATableOnStandardOutputIsAllThereIs) {
  const std::string job = Write("job.yaml", kJob);
  const Answer answer = Ask({"infer", job, "--step-time", "1 s", "--export", "-"});
  EXPECT_EQ(Json::parse(answer.out)["schema"], "stepsim.infer/1");
  EXPECT_THAT(answer.err, HasSubstr("measured"));
}

// 40 ms are exposed of 40 ms and the compute.
TEST_F(Study, RunFailsIfAConditionHolds) {
  const std::string job = Write("job.yaml", kJob);
  const Answer fine = Ask({"run", job, "--fail-if", "exposed_total_s > 0.041"});
  EXPECT_EQ(fine.status, kExitSuccess) << fine.err;
  const Answer failed = Ask({"run", job, "--fail-if", "exposed > 5%", "--fail-if",
                             "step_time > 3600s", "--export", Path("x.json")});
  EXPECT_EQ(failed.status, kExitCheckFailed);
  EXPECT_THAT(failed.err, HasSubstr("--fail-if exposed > 5%"));
  EXPECT_THAT(failed.err, Not(HasSubstr("step_time")));
  EXPECT_NE(ReadAll(Path("x.json")), "");  // what it is judged by is there
}

TEST_F(Study, AWrongConditionIsSaidBeforeAnythingIsSimulated) {
  const std::string job = Write("job.yaml", kJob);
  const Answer answer = Ask({"run", job, "--fail-if", "exposd > 5%"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_EQ(answer.out, "");
  EXPECT_THAT(answer.err, HasSubstr("exposed"));
}

}  // namespace
}  // namespace stepsim
