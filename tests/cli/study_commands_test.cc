// whatif, required and infer from the outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::HasSubstr;
using testing::kOneLayer;
using ::testing::Not;
using testing::ReadAll;
using Study = testing::Cli;
using Json = nlohmann::json;

double StepOf(const std::vector<std::string>& run) {
  std::vector<std::string> all = run;
  all.insert(all.end(), {"-q", "--export", "-"});
  return Json::parse(Ask(all).out)["step_time_s"];
}

TEST_F(Study, WhatIfHasALineForEachChange) {
  const std::string job = Write("job.yaml", kOneLayer);
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
  const std::string job = Write("job.yaml", kOneLayer);
  const Answer answer = Ask({"whatif", job, "--set", "nodez=2", "--set", "plan.strategy=none"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.out, HasSubstr("plan.strategy=none"));
  EXPECT_THAT(answer.err, HasSubstr("did you mean 'nodes'?"));
  EXPECT_EQ(Ask({"whatif", job}).status, kExitInput);
}

// Base and line together: fp32 at 200 GB/s.
TEST_F(Study, WhatIfTakesSettingsOfTheJobItself) {
  const std::string job = Write("job.yaml", kOneLayer);
  Ask({"whatif", job, "--base", "hardware.intra_node.bandwidth=200 GB/s", "--set", "kernels=null",
       "--export", Path("lines.json")});
  const Json rows = Json::parse(ReadAll(Path("lines.json")))["rows"];
  EXPECT_NEAR(double{rows[0]["exposed_total_s"]}, 0.020, 1e-9);
}

// compute + 4 GB / B <= compute + 10 ms from B = 400 GB/s on.
TEST_F(Study, RequiredFindsTheBandwidth) {
  const std::string job = Write("job.yaml", kOneLayer);
  const double step = StepOf({"run", job}) - 0.030;
  const Answer answer = Ask({"required", job, "--step-time", std::to_string(step) + " s", "--free",
                             "network", "--export", Path("answer.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json row = Json::parse(ReadAll(Path("answer.json")))["rows"][0];
  EXPECT_NEAR(double{row["needed"]}, 400e9, 0.01 * 400e9);
  EXPECT_THAT(answer.out, HasSubstr("at least 4"));
}

TEST_F(Study, RequiredWantsOneTarget) {
  const std::string job = Write("job.yaml", kOneLayer);
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
  const std::string job = Write("job.yaml", kOneLayer);
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
  const std::string job = Write("job.yaml", kOneLayer);
  for (const char* wrong : {"4.6", "-1 s", "fast", "1e9 s", "0 s"}) {
    EXPECT_EQ(Ask({"infer", job, "--step-time", wrong}).status, kExitInput) << wrong;
  }
  EXPECT_EQ(Ask({"infer", job}).status, kExitInput);
  EXPECT_THAT(Ask({"infer", job, "--step-time", "1 s", "--free", "memory"}).err,
              HasSubstr("allowed: network, compute"));
}

// Standard output is the table's alone.
TEST_F(Study, ATableOnStandardOutputIsAllThereIs) {
  const std::string job = Write("job.yaml", kOneLayer);
  const Answer answer = Ask({"infer", job, "--step-time", "1 s", "--export", "-"});
  EXPECT_EQ(Json::parse(answer.out)["schema"], "stepsim.infer/1");
  EXPECT_THAT(answer.err, HasSubstr("measured"));
}

// 40 ms are exposed of 40 ms and the compute.
TEST_F(Study, RunFailsIfAConditionHolds) {
  const std::string job = Write("job.yaml", kOneLayer);
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
  const std::string job = Write("job.yaml", kOneLayer);
  const Answer answer = Ask({"run", job, "--fail-if", "exposd > 5%"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_EQ(answer.out, "");
  EXPECT_THAT(answer.err, HasSubstr("exposed"));
}

// As long as two samples take: three take longer.
TEST_F(Study, RequiredSaysAtMostWhereMoreIsWorse) {
  const std::string job = Write("job.yaml", kOneLayer);
  const double step = StepOf({"run", job, "--set", "batch.micro_batch_size=2"});
  const Answer answer = Ask({"required", job, "--step-time", std::to_string(step + 1e-4) + " s",
                             "--free", "tokens", "--export", Path("answer.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_EQ(Json::parse(ReadAll(Path("answer.json")))["rows"][0]["needed"], 2);
  EXPECT_THAT(answer.out, HasSubstr("at most 2 samples"));
}

// A rate that no field may have ends the search, not the command.
TEST_F(Study, InferWorksAtTheEdgeOfWhatAFieldMayBe) {
  const std::string fast = "hardware.gpu.hbm_bandwidth=1000000 TB/s";
  const Answer answer = Ask({"infer", Write("job.yaml", kOneLayer), "--set", fast, "--step-time",
                             "1 s", "--free", "compute"});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
}

TEST_F(Study, NoOutputReplacesTheJob) {
  const std::string text = R"({"model": "gpt2", "hardware": "a100-40g-dgx", "nodes": 1})";
  const std::string job = Write("job.json", text);
  const std::string other = Path(".") + "/job.json";  // by another name
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run"},
                                                  {"explain"},
                                                  {"whatif", "--set", "nodes=1"},
                                                  {"required", "--mfu", "40%"},
                                                  {"infer", "--step-time", "1 s"},
                                                  {"tune"}}) {
    std::vector<std::string> all = command;
    all.insert(all.end(), {job, "--export", other});
    const Answer answer = Ask(all);
    EXPECT_EQ(answer.status, kExitInput) << command[0];
    EXPECT_THAT(answer.err, HasSubstr("found a file that this command reads")) << command[0];
  }
  EXPECT_EQ(ReadAll(job), text);
}

// ---- tune ----

// Each claimed step is that of run --set; the best is as fast as the fastest.
TEST_F(Study, TuneFindsWhatRunConfirms) {
  const std::string job = Write("job.yaml", kOneLayer);
  const Answer answer = Ask({"tune", job, "--set", "batch.micro_batch_size=4", "--knobs",
                             "bucket,micro_batch", "--export", Path("jobs.json")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  const Json rows = Json::parse(ReadAll(Path("jobs.json")))["rows"];
  ASSERT_GE(rows.size(), 10);
  double least = 1e9;
  int best = 0;
  for (const Json& row : rows) least = std::min(least, double{row["step_time_s"]});
  for (const Json& row : rows) {
    if (!row["is_best"]) continue;
    ++best;
    EXPECT_LE(double{row["step_time_s"]},
              least * 1.0021);  // what is taken back brings 0.2% at most
  }
  EXPECT_EQ(best, 1);
  std::istringstream sets(std::string{rows.back()["set"]});
  std::vector<std::string> run = {"run", job, "--set", "batch.micro_batch_size=4"};
  for (std::string set; sets >> set;) run.insert(run.end(), {"--set", set});
  EXPECT_EQ(rows.back()["step_time_s"], StepOf(run));
  EXPECT_THAT(answer.out, HasSubstr("PyTorch:"));
  EXPECT_THAT(answer.out, Not(HasSubstr("torchtitan:")));
}

TEST_F(Study, TuneRefusesWhatIsNoKnobOrBudget) {
  const std::string job = Write("job.yaml", kOneLayer);
  EXPECT_THAT(Ask({"tune", job, "--knobs", "split"}).out, HasSubstr("not of this job: split"));
  EXPECT_EQ(Ask({"tune", job, "--points", "-1"}).status, kExitInput);
  EXPECT_EQ(Ask({"explain", job, "--top", "-1"}).status, kExitInput);
  EXPECT_THAT(Ask({"tune", job, "--knobs", "bucket,shardng"}).err,
              HasSubstr("did you mean 'sharding'?"));
  for (const char* wrong : {"memory", "memory=", "memory=0GiB", "memory=80", "time=3s", "80GiB"}) {
    const Answer answer = Ask({"tune", job, "--budget", wrong});
    EXPECT_EQ(answer.status, kExitInput) << wrong;
    EXPECT_THAT(answer.err, HasSubstr("--budget")) << wrong;
  }
  for (const char* wrong : {"0s", "-1s", "30", "nan s"}) {
    EXPECT_EQ(Ask({"tune", job, "--time", wrong}).status, kExitInput) << wrong;
  }
}

}  // namespace
}  // namespace stepsim
