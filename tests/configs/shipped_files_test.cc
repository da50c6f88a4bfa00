// Is everything under configs/ usable? Every file loads without a diagnostic, every network has the
// published number of parameters, every job runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "models/workload/workload.h"
#include "sim/metrics/metric_table.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::Each;
using testing::LoadShipped;
using ::testing::Not;
using testing::PlainName;
using testing::ReadRepositoryFile;
using testing::ShippedConfigs;
using ::testing::StartsWith;
using ::testing::TestWithParam;
using ::testing::ValuesIn;

class HardwareFile : public TestWithParam<std::string> {};
class NetworkFile : public TestWithParam<std::string> {};
class ModelFile : public TestWithParam<std::string> {};
class JobFile : public TestWithParam<std::string> {};

TEST_P(HardwareFile, LoadsUnderItsOwnName) {
  const std::string path = "configs/hardware/" + GetParam() + ".yaml";
  const HardwareSpec hardware = LoadHardwareText(ReadRepositoryFile(path), path);
  EXPECT_EQ(hardware.name, GetParam());
  EXPECT_FALSE(hardware.description.empty());
  EXPECT_FALSE(hardware.gpu.name.empty());
  EXPECT_FALSE(hardware.network.name.empty());
}

// What a job asks of a profile: a peak for the type it computes in, and links that carry bytes.
TEST_P(HardwareFile, HasWhatAJobNeeds) {
  const std::string path = "configs/hardware/" + GetParam() + ".yaml";
  const HardwareSpec hardware = LoadHardwareText(ReadRepositoryFile(path), path);
  EXPECT_GT(hardware.gpu.peak.fp32.value, 0);
  EXPECT_GT(hardware.gpu.peak.fp16.value, 0);
  EXPECT_GE(hardware.gpu.peak.fp16, hardware.gpu.peak.fp32);
  EXPECT_GT(hardware.gpu.memory.value, 0);
  EXPECT_GT(hardware.intra_node.bandwidth.value, 0);
  EXPECT_GT(hardware.network.link.bandwidth.value, 0);
}

TEST_P(NetworkFile, LoadsUnderItsOwnName) {
  const std::string path = "configs/networks/" + GetParam() + ".yaml";
  const NetworkSpec network = LoadNetworkText(ReadRepositoryFile(path), path);
  EXPECT_EQ(network.name, GetParam());
  EXPECT_GT(network.link.bandwidth.value, 0);
}

// An overlay must fit over any profile: here over two nodes of the first job's.
TEST_P(NetworkFile, LiesOverAProfile) {
  const JobSpec job = LoadShipped("llama-3.2-3b_ddp_16xa100", {"network=" + GetParam()}).job;
  EXPECT_EQ(job.hardware.network.name, GetParam());
  EXPECT_EQ(job.hardware.name, "a100-80g-dgx");
}

TEST_P(ModelFile, HasThePublishedParameters) {
  const std::string path = "configs/models/" + GetParam() + ".yaml";
  JobSpec job;
  job.model = LoadModelText(ReadRepositoryFile(path), path);
  EXPECT_EQ(job.model.name, GetParam());
  EXPECT_FALSE(job.model.description.empty());
  ASSERT_GT(job.model.reference_parameters, 0);
  EXPECT_EQ(BuildWorkload(job).parameter_count(), job.model.reference_parameters);
}

TEST_P(JobFile, LoadsAndIsNamed) {
  const ResolvedJob resolved = LoadShipped(GetParam());
  EXPECT_NE(resolved.job.name, GetParam()) << "a job of ours has a name of its own";
  EXPECT_FALSE(resolved.origins.empty());
}

TEST_P(JobFile, RunsAndFits) {
  const StepReport report = RunStep(LoadShipped(GetParam())).report;
  testing::ExpectIdentity(report);
  EXPECT_GT(report.step_time_s(), 0);
  EXPECT_LE(report.memory.total, report.context.gpu_memory);
  EXPECT_THAT(report.context.warnings, Each(Not(StartsWith("does not fit"))));
  for (const Metric& metric : Metrics()) {
    EXPECT_TRUE(std::isfinite(metric.value(report))) << metric.name;
  }
  EXPECT_LE(Hfu(report), 1);
}

// The job that a result carries is complete: it needs no preset and gives the same job again.
TEST_P(JobFile, ResolvesToAJobThatStandsAlone) {
  const ResolvedJob first = LoadShipped(GetParam());
  const ResolvedJob again =
      LoadJobText(first.resolved_json, "resolved.json", {}, MemoryConfigSource({}));
  EXPECT_EQ(again.resolved_json, first.resolved_json);
}

TEST_P(JobFile, ResolvedJobTakesAsLong) {
  const ResolvedJob first = LoadShipped(GetParam());
  const ResolvedJob again =
      LoadJobText(first.resolved_json, "resolved.json", {}, MemoryConfigSource({}));
  EXPECT_EQ(RunStep(again).report.account().step, RunStep(first).report.account().step);
}

INSTANTIATE_TEST_SUITE_P(Configs, HardwareFile,
                         ValuesIn(ShippedConfigs().Names(ConfigKind::kHardware)), PlainName);
INSTANTIATE_TEST_SUITE_P(Configs, NetworkFile,
                         ValuesIn(ShippedConfigs().Names(ConfigKind::kNetworks)), PlainName);
INSTANTIATE_TEST_SUITE_P(Configs, ModelFile, ValuesIn(ShippedConfigs().Names(ConfigKind::kModels)),
                         PlainName);
INSTANTIATE_TEST_SUITE_P(Configs, JobFile, ValuesIn(ShippedConfigs().Names(ConfigKind::kJobs)),
                         PlainName);

// A folder that moved would leave the tables above empty, and every test of them would pass.
TEST(ShippedFiles, AreThere) {
  EXPECT_THAT(ShippedConfigs().Names(ConfigKind::kHardware), ::testing::Contains("a100-80g-dgx"));
  EXPECT_THAT(ShippedConfigs().Names(ConfigKind::kNetworks), ::testing::Contains("ethernet-10g"));
  EXPECT_THAT(ShippedConfigs().Names(ConfigKind::kModels), ::testing::Contains("resnet-50"));
  EXPECT_THAT(ShippedConfigs().Names(ConfigKind::kJobs), ::testing::Contains("lesson_serial"));
}

}  // namespace
}  // namespace stepsim
