// stepsim calibrate from the outside: logs in, a calibration out, and what it does to a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ReadAll;
using Calibrate = testing::Cli;
using Json = nlohmann::json;

// 8 GPUs; time = 30 us + size / 100 GB/s: half of what an A100 node does.
std::string SlowAllReduce() {
  std::ostringstream log;
  log << "# Collective test starting: all_reduce_perf\n"
         "# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824\n"
         "# Using devices\n";
  for (int rank = 0; rank < 8; ++rank) {
    log << "#  Rank  " << rank << " Group  0 Pid  1 on box device  " << rank
        << " [0x07] NVIDIA A100-SXM4-40GB\n";
  }
  for (std::int64_t bytes = 1024; bytes <= (std::int64_t{1} << 30); bytes *= 4) {
    const double us = 30 + static_cast<double>(bytes) / 100e9 * 1e6;
    log << "  " << bytes << "  " << bytes / 4 << "  float  sum  -1  " << us << " 1.0 1.75 0 " << us
        << " 1.0 1.75 0\n";
  }
  return log.str();
}

Json RunJob(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"-q", "--export", "-"});
  const Answer answer = Ask(arguments);
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  return answer.status == kExitSuccess ? Json::parse(answer.out) : Json::object();
}

TEST_F(Calibrate, FitsLogsAndRunsWithThem) {
  const std::string log = Write("ar.log", SlowAllReduce());
  const std::string out = Path("mine.yaml");
  const Answer answer =
      Ask({"calibrate", "--nccl-tests", log, "--hardware", "a100-40g-dgx", "-o", out});
  ASSERT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("calibration mine over a100-40g-dgx"));
  EXPECT_THAT(answer.out, HasSubstr("all_reduce, 8 ranks on 1 node: 30.0 us"));
  EXPECT_THAT(answer.out, HasSubstr("100 GB/s"));
  EXPECT_THAT(answer.out, HasSubstr("NVIDIA A100-SXM4-40GB"));
  EXPECT_THAT(answer.out, HasSubstr("wrote " + out));

  // The price is the measured one: 30 us + 64 MiB / 100 GB/s.
  const Answer cost = Ask({"cost", "all_reduce", "--hardware", "a100-40g-dgx", "--calibration", out,
                           "--bytes", "64MiB", "-q", "--export", "-"});
  ASSERT_EQ(cost.status, kExitSuccess) << cost.err;
  EXPECT_NEAR(Json::parse(cost.out)["rows"][0]["time_us"].get<double>(),
              30 + 67'108'864 / 100e9 * 1e6, 1.0);

  // And so is that of every bucket of a step, where nothing runs beside it.
  const Json calibrated =
      RunJob({"gpt2_ddp_8xa100", "--calibration", out, "--set", "contention=off"});
  ASSERT_FALSE(calibrated["collectives"].empty());
  for (const Json& bucket : calibrated["collectives"]) {
    const double took = bucket["end_s"].get<double>() - bucket["transfer_start_s"].get<double>();
    EXPECT_NEAR(took, 30e-6 + bucket["bytes"].get<double>() / 100e9, 1e-6);
  }
  EXPECT_EQ(calibrated["resolved"]["calibration"]["name"], "mine");
  const Answer report = Ask({"run", "gpt2_ddp_8xa100", "--calibration", out});
  EXPECT_THAT(report.out, HasSubstr("calibrated by 'mine'"));
  // All commands that take a job take it.
  EXPECT_EQ(Ask({"explain", "gpt2_ddp_8xa100", "--calibration", out}).status, kExitSuccess);
}

TEST_F(Calibrate, WarnsOverAnotherProfile) {
  const std::string log = Write("ar.log", SlowAllReduce());
  const std::string out = Path("mine.yaml");
  ASSERT_EQ(
      Ask({"calibrate", "--nccl-tests", log, "--hardware", "h100-sxm-dgx", "-o", out, "-q"}).status,
      kExitSuccess);
  const Answer report = Ask({"run", "gpt2_ddp_8xa100", "--calibration", out});
  EXPECT_EQ(report.status, kExitSuccess);
  EXPECT_THAT(report.out,
              HasSubstr("fitted over hardware h100-sxm-dgx, the job's is a100-40g-dgx"));
}

TEST_F(Calibrate, WritesTheFileToStandardOutput) {
  const std::string gemm = Write("gemm.csv", "m,n,k,dtype,tflops\n8192,8192,8192,bf16,200\n");
  const Answer answer = Ask({"calibrate", "--gemm", gemm, "--hardware", "a100-40g-dgx", "-o", "-"});
  ASSERT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("fitted_over: \"a100-40g-dgx\""));
  EXPECT_THAT(answer.err, HasSubstr("gemm bf16"));
  const std::string file = Write("c.yaml", answer.out);
  const Answer cost = Ask({"cost", "gemm", "--hardware", "a100-40g-dgx", "--m", "8192", "--n",
                           "8192", "--k", "8192", "--calibration", file, "-q", "--export", "-"});
  ASSERT_EQ(cost.status, kExitSuccess) << cost.err;
  EXPECT_NEAR(Json::parse(cost.out)["rows"][0]["tflops"].get<double>(), 200, 1);
}

// As tools/calibrate/README.md has it.
TEST_F(Calibrate, TakesMeasurements) {
  const std::string file = Write(
      "grid.jsonl",
      "{\"schema\":\"stepsim.measurements/1\",\"backend\":\"cuda\",\"device\":\"NVIDIA H200\"}\n"
      "{\"kind\":\"launch\",\"op\":\"event_handover\",\"median_s\":2e-6}\n");
  const Answer answer =
      Ask({"calibrate", "--measurements", file, "--hardware", "h200-dgx", "-o", Path("h200.yaml")});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("event_handover: 2.00 us"));
}

TEST_F(Calibrate, SaysEverythingThatIsWrong) {
  const std::string log = Write("ar.log", SlowAllReduce());
  const Answer answer = Ask({"calibrate", "--nccl-tests", log, "--bduget", "3s"});
  EXPECT_EQ(answer.status, kExitInput);
  EXPECT_THAT(answer.err, HasSubstr("-o: missing"));
  EXPECT_THAT(answer.err, HasSubstr("--hardware: missing"));
  EXPECT_THAT(answer.err, HasSubstr("found '--bduget'"));
  const Answer files = Ask({"calibrate", "--nccl-tests", Write("a.log", "x"), Path("absent.log"),
                            "--hardware", "a100-40g-dgx", "-o", Path("c.yaml")});
  EXPECT_EQ(files.status, kExitInput);
  EXPECT_THAT(files.err, HasSubstr("found no table of nccl-tests"));
  EXPECT_THAT(files.err, HasSubstr("absent.log: found no such file"));
  EXPECT_THAT(Files(), Not(::testing::Contains("c.yaml")));
}

TEST_F(Calibrate, SaysHowToMeasure) {
  const Answer answer = Ask({"calibrate", "--backend", "mpi", "--budget", "10s"});
  if (answer.status == kExitInternal) {
    EXPECT_THAT(answer.err, HasSubstr("no program stepsim-calibrate beside stepsim or in PATH"));
    EXPECT_EQ(answer.err.find('\n'), answer.err.size() - 1);  // one line
  }
  EXPECT_NE(answer.status, kExitInput) << answer.err;
}

// ---- Logs of whole trainings ----

// The log of a run on a cluster whose kernels reach `compute` and whose network reaches `network`
// of the profile's: what the simulator itself says, with a slow start.
std::string LogOf(const std::string& job, const std::vector<std::string>& sets) {
  std::vector<std::string> arguments = {job};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const double ms = 1e3 * RunJob(arguments)["step_time_s"].get<double>();
  std::ostringstream log;
  log.precision(12);
  for (int i = 0; i < 20; ++i) {
    log << " iteration " << i << "/ 20 | elapsed time per iteration (ms): " << (i < 2 ? 9 * ms : ms)
        << " |\n";
  }
  return log.str();
}

const char kTwoNodes[] =
    "model: gpt2\nhardware: a100-40g-dgx\nnetwork: ethernet-25g\nnodes: 2\n"
    "batch: {micro_batch_size: 4, sequence_length: 1024}\nplan: {strategy: ddp}\n"
    "precision: {compute: bf16}\nhost: {launch: 0 us}\n";
const std::vector<std::string> kTruth = {
    "hardware.gpu.gemm_efficiency=0.6", "hardware.gpu.attention_efficiency=0.4",
    "hardware.gpu.memory_efficiency=0.6", "hardware.network.link.efficiency=0.5"};
const std::vector<std::string> kProfile = {
    "hardware.gpu.gemm_efficiency=0.75", "hardware.gpu.attention_efficiency=0.5",
    "hardware.gpu.memory_efficiency=0.75", "hardware.network.link.efficiency=0.8"};

// 0.6/0.75 = 0.4/0.5 = 0.8 of the compute, 0.5/0.8 = 0.625 of the network.
TEST_F(Calibrate, TwoTrainingsTellComputeAndNetwork) {
  const std::string a = Write("a.yaml", std::string(kTwoNodes) + "name: small\n");
  std::string large_text = kTwoNodes;
  large_text.replace(large_text.find("micro_batch_size: 4"), 19, "micro_batch_size: 32");
  const std::string b = Write("b.yaml", large_text);
  const std::string log_a = Write("a.log", LogOf(a, kTruth));
  const std::string log_b = Write("b.log", LogOf(b, kTruth));
  std::vector<std::string> arguments = {
      "calibrate", "--log", log_a, "--job", a, "--log", log_b, "--job", b, "-o", Path("c.yaml")};
  for (const std::string& set : kProfile) arguments.insert(arguments.end(), {"--set", set});
  const Answer answer = Ask(arguments);
  ASSERT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("compute: 0.80"));
  EXPECT_THAT(answer.out, HasSubstr("network between nodes: 0.625 of the profile's"));
  EXPECT_THAT(answer.out, HasSubstr("first 2 lines left out"));
}

TEST_F(Calibrate, OneTrainingTellsOneFactorAndSaysSo) {
  const std::string job = Write("job.yaml", kTwoNodes);
  const std::string log = Write("a.log", LogOf(job, kTruth));
  std::vector<std::string> arguments = {"calibrate", "--log", log,           "--job",
                                        job,         "-o",    Path("c.yaml")};
  for (const std::string& set : kProfile) arguments.insert(arguments.end(), {"--set", set});
  const Answer answer = Ask(arguments);
  ASSERT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("with one configuration only the network can be told"));
  EXPECT_THAT(answer.out, HasSubstr("compute: 1.000 of the profile's (cannot be told)"));

  const Answer wrong = Ask({"calibrate", "--log", log, "-o", Path("d.yaml")});
  EXPECT_EQ(wrong.status, kExitInput);
  EXPECT_THAT(wrong.err, HasSubstr("found 1 logs and 0 jobs, allowed: a --job for each --log"));
}

}  // namespace
}  // namespace stepsim
