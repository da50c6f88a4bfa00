#include "tools/calibrate/measurement_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/diagnostics.h"
#include "tools/calibrate/command.h"
#include "tools/calibrate/launch_context.h"
#include "tools/calibrate/options.h"

namespace stepsim::measure {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Measured One(MeasureTask task) { return {std::move(task), {{2e-3, 1e-3, 4e-3}}, 7, 8, 2, {}, ""}; }

// 1..5 by numpy's default: the 10th percentile lies at 0.4 of the way from 1 to 2.
TEST(Statistics, PercentilesBetweenNeighbours) {
  const Spread spread = Summarize({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.p10, 1.4);
  EXPECT_DOUBLE_EQ(spread.p90, 4.6);
  EXPECT_DOUBLE_EQ(Summarize({7}).p10, 7);
}

// Fields as "stepsim.measurements/1" has them (tools/calibrate/README.md).
TEST(MeasurementFile, LinesOfEachKind) {
  EXPECT_EQ(json::parse(MeasurementLine(One(GemmTask{1, 2, 3, "fp8"}))),
            json::parse(R"({"kind":"gemm","m":1,"n":2,"k":3,"dtype":"fp8","median_s":0.002,
                            "p10_s":0.001,"p90_s":0.004,"repeats":7})"));
  EXPECT_EQ(
      json::parse(MeasurementLine(One(CollectiveTask{CollectiveKind::kAllGather, 4096, true, 16}))),
      json::parse(R"({"kind":"collective","op":"all_gather","bytes":4096,"in_place":true,
                            "max_ctas":16,"ranks":8,"nodes":2,"median_s":0.002,"p10_s":0.001,
                            "p90_s":0.004,"repeats":7})"));
  EXPECT_EQ(json::parse(MeasurementLine(One(AttentionTask{1, 8, 64, 128, false, "bf16"})))["seq_k"],
            64);
  EXPECT_EQ(json::parse(MeasurementLine(One(MemoryTask{MemoryOp::kNorm, 512})))["op"], "norm");
  EXPECT_EQ(json::parse(MeasurementLine(One(LaunchTask{LaunchOp::kEventHandover})))["op"],
            "event_handover");
}

TEST(MeasurementFile, InterferenceHasFourTimes) {
  Measured measured = One(InterferenceTask{GemmTask{1, 2, 3, "bf16"}, CopyLoad{16}});
  measured.columns = {{1, 1, 1}, {2, 1.5, 2.5}, {3, 3, 3}, {4, 4, 4}};
  measured.note = "throttled: power cap";
  const json line = json::parse(MeasurementLine(measured));
  EXPECT_EQ(line["beside"], json::parse(R"({"kind":"copy","sms":16})"));
  EXPECT_EQ(line["compute"]["kind"], "gemm");
  EXPECT_EQ(line["compute_alone_s"], 1);
  EXPECT_EQ(line["compute_beside_s"], 2);
  EXPECT_EQ(line["beside_alone_s"], 3);
  EXPECT_EQ(line["beside_beside_s"], 4);
  EXPECT_EQ(line["median_s"], 2);
  EXPECT_EQ(line["p10_s"], 1.5);
  EXPECT_EQ(line["note"], "throttled: power cap");
}

TEST(MeasurementFile, HeaderSurvivesNamesThatAreNoText) {
  FileHeader header;
  header.facts.device = "GPU\xff\"";
  header.facts.libraries = {{"nccl", "2.28.9"}};
  header.ranks = 4;
  const json line = json::parse(HeaderLine(header));
  EXPECT_EQ(line["schema"], "stepsim.measurements/1");
  EXPECT_EQ(line["libraries"]["nccl"], "2.28.9");
  EXPECT_EQ(line["ranks"], 4);
}

TEST(MeasurementFile, KeepsFilesThatAreThere) {
  const std::string path = testing::TempDir() + "measurement_file_test.jsonl";
  std::ofstream(path) << "precious\n";
  try {
    MeasurementFile file(path, false);
    FAIL() << "the file was replaced";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--overwrite"));
  }
  {
    MeasurementFile file(path, true);
    file.Write(One(GemmTask{}));
    std::ifstream in(path);  // while the file is open: flushed
    std::string line;
    std::getline(in, line);
    EXPECT_EQ(json::parse(line)["kind"], "gemm");
  }
  std::filesystem::remove(path);
  EXPECT_THROW(MeasurementFile("no/such/folder/file.jsonl", false), ConfigError);
}

Environment With(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

TEST(LaunchContext, Torchrun) {
  const LaunchContext context = ReadLaunchContext(With({{"RANK", "5"},
                                                        {"WORLD_SIZE", "8"},
                                                        {"LOCAL_RANK", "1"},
                                                        {"MASTER_ADDR", "node0"},
                                                        {"MASTER_PORT", "1234"},
                                                        {"OMPI_COMM_WORLD_RANK", "0"},
                                                        {"OMPI_COMM_WORLD_SIZE", "1"}}),
                                                  true);
  EXPECT_EQ(context.launcher, Launcher::kEnvironment);
  EXPECT_EQ(context.rank, 5);
  EXPECT_EQ(context.ranks, 8);
  EXPECT_EQ(context.local_rank, 1);
  EXPECT_EQ(context.master_address, "node0");
  EXPECT_EQ(context.master_port, 1234);
}

TEST(LaunchContext, MpiWhereItWasBuilt) {
  const auto environment =
      With({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"MASTER_ADDR", "here"}});
  EXPECT_EQ(ReadLaunchContext(environment, true).launcher, Launcher::kMpi);
  EXPECT_EQ(ReadLaunchContext(environment, false).launcher, Launcher::kEnvironment);
  EXPECT_EQ(ReadLaunchContext(With({}), true).ranks, 1);
  // A batch script has SLURM_PROCID too, but only srun starts several of us.
  EXPECT_EQ(ReadLaunchContext(With({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), true).ranks, 1);
  EXPECT_EQ(ReadLaunchContext(With({{"SLURM_PROCID", "3"},
                                    {"SLURM_STEP_NUM_TASKS", "8"},
                                    {"SLURM_LOCALID", "3"},
                                    {"MASTER_ADDR", "n1"}}),
                              true)
                .launcher,
            Launcher::kSlurm);
}

TEST(LaunchContext, MistakesAreNamed) {
  const auto message = [](std::map<std::string, std::string> variables) -> std::string {
    try {
      ReadLaunchContext(With(std::move(variables)), true);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"RANK", "8"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}}),
              HasSubstr("RANK: found '8', allowed: a whole number from 0 to 7"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "many"}}),
              HasSubstr("WORLD_SIZE: found 'many'"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR: not set"));
}

std::string MessageOf(const std::vector<std::string>& arguments) {
  try {
    std::string help;
    ReadOptions(arguments, Backends(), &help);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Options, MistakesAreNamed) {
  EXPECT_THAT(MessageOf({"--backend", "cud"}),
              HasSubstr("allowed: cuda, mpi; did you mean 'cuda'?"));
  EXPECT_THAT(MessageOf({"--only", "gemm,colective"}), HasSubstr("did you mean 'collective'?"));
  EXPECT_THAT(MessageOf({"--budget", "soon"}), HasSubstr("--budget: found 'soon'"));
  EXPECT_THAT(MessageOf({"--gemm", "1x2"}), HasSubstr("MxNxK"));
  EXPECT_THAT(MessageOf({"--gemm", "1x2x-3"}), HasSubstr("found '-3'"));
  EXPECT_THAT(MessageOf({"--min-bytes", "2MiB", "--max-bytes", "1MiB"}), HasSubstr("--max-bytes"));
  EXPECT_THAT(MessageOf({"--budgt", "1s"}), HasSubstr("did you mean '--budget'?"));
  EXPECT_EQ(MessageOf({"--budget", "120s", "--only", "gemm", "--gemm", "1x2x3"}), "");
}

// A backend without its device ends with its sentence and status 1.
TEST(Command, MissingDeviceIsOneSentence) {
  const BackendRow row{"cuda", "GPUs", []() -> std::string { return "no driver is installed"; },
                       [](Peers&) -> std::unique_ptr<Backend> { return nullptr; }};
  std::ostringstream out, err;
  const Program program{out,
                        err,
                        false,
                        "",
                        "",
                        {&row, 1},
                        With({}),
                        [] { return false; },
                        [](const std::string&) {}};
  EXPECT_EQ(RunCalibrate({}, program), kExitFailed);
  EXPECT_EQ(err.str(), "error: no driver is installed\n");
  EXPECT_EQ(RunCalibrate({"--dry-run"}, program), kExitDone);
  EXPECT_THAT(out.str(), HasSubstr("gemm 8192x8192x8192 bf16"));
}

}  // namespace
}  // namespace stepsim::measure
