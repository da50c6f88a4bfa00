// A machine without a job: what is read, and what is said of mistakes. And which file a reference
// means.
#include "models/spec/load_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/load_job.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBox[] = R"(name: h100-sxm-dgx
gpus_per_node: 8
gpu: {name: H100, hbm_bandwidth: 3 TB/s, memory: 80 GiB, sms: 132, peak: {bf16: 989 TFLOP/s}}
intra_node: {type: nvlink, bandwidth: 450 GB/s}
network: {name: ib, link: {type: infiniband, bandwidth: 400 Gb/s}}
)";

MemoryConfigSource Source() {
  return MemoryConfigSource(
      {{"hardware/h100-sxm-dgx.yaml", kBox},
       {"hardware/b200-dgx.yaml", kBox},
       {"networks/slow.yaml", "name: slow\nlink: {type: ethernet, bandwidth: 25 Gb/s}\n"}});
}

ClusterSpec Load(const std::vector<std::string>& settings) {
  Diagnostics diagnostics;
  return LoadCluster(ParseSettings(settings, diagnostics), Source(), diagnostics);
}

std::string ErrorOf(const std::vector<std::string>& settings) {
  try {
    Load(settings);
  } catch (const ConfigError& error) {
    std::string text;
    for (const Diagnostic& d : error.diagnostics()) text += d.ToString() + "\n";
    return text;
  }
  return "no error";
}

TEST(LoadCluster, ReadsTheMachine) {
  const ClusterSpec cluster = Load({"hardware=h100-sxm-dgx", "nodes=2", "network=slow",
                                    "hardware.gpu.sms=100", "collectives.min_ctas=4"});
  EXPECT_EQ(cluster.hardware.name, "h100-sxm-dgx");
  EXPECT_EQ(cluster.hardware.gpu.sms, 100);
  EXPECT_EQ(cluster.hardware.network.name, "slow");
  EXPECT_EQ(cluster.collectives.min_ctas, 4);
  EXPECT_EQ(cluster.gpus_per_node, 8);  // the profile's
  EXPECT_EQ(cluster.ranks(), 16);
}

TEST(LoadCluster, ReportsEveryMistakeAtOnce) {
  const std::string error =
      ErrorOf({"hardware=h100-sxm-dgx", "nodes=0", "gpus_per_node=9", "plan.strategy=ddp",
               "network=slw", "collectives.corrections=absent"});
  EXPECT_THAT(error, HasSubstr("--set nodes=0: nodes: found '0'"));
  EXPECT_THAT(error, HasSubstr("gpus_per_node: found 9, allowed: at most the 8 of hardware h100"));
  EXPECT_THAT(
      error,
      HasSubstr("found the unknown key 'plan', allowed: hardware, network, calibration, nodes"));
  EXPECT_THAT(error, HasSubstr("did you mean 'slow'?"));
  EXPECT_THAT(error, HasSubstr("collectives.corrections=absent: collectives.corrections: found"));
}

// What a calibration says of the host is left alone; a setting of it is still an error.
TEST(LoadCluster, HasNoHost) {
  const std::string calibration = "calibration={name: c, host: {launch: 3 us}}";
  EXPECT_EQ(Load({"hardware=h100-sxm-dgx", calibration}).calibration.name, "c");
  EXPECT_THAT(ErrorOf({"hardware=h100-sxm-dgx", calibration, "host.launch=3 us"}),
              HasSubstr("found the unknown key 'host'"));
}

TEST(LoadCluster, NeedsHardware) {
  EXPECT_THAT(ErrorOf({"nodes=2"}), HasSubstr("hardware: missing"));
}

TEST(LoadCluster, ANetworkNeedsASecondNode) {
  EXPECT_THAT(ErrorOf({"hardware=b200-dgx", "network=slow"}),
              HasSubstr("network: has no effect with nodes: 1"));
}

TEST(LoadCluster, RefusesMoreGpusThanAnyoneHas) {
  EXPECT_THAT(ErrorOf({"hardware=b200-dgx", "nodes=1000000", "hardware.gpus_per_node=1000"}),
              HasSubstr("GPUs, allowed: at most"));
}

// ---- Which file a name means ----

TEST(NamesWithWords, FindsWordsInAnyOrder) {
  const std::vector<std::string> names = {"a100-40g-dgx", "a100-80g-dgx", "h100-sxm-dgx"};
  EXPECT_THAT(NamesWithWords("dgx-h100", names), ElementsAre("h100-sxm-dgx"));
  EXPECT_THAT(NamesWithWords("H100 DGX", names), ElementsAre("h100-sxm-dgx"));
  EXPECT_THAT(NamesWithWords("dgx_a100", names), ElementsAre("a100-40g-dgx", "a100-80g-dgx"));
  EXPECT_THAT(NamesWithWords("a100-80g", names), ElementsAre("a100-80g-dgx"));
}

// Whole words: "h10" or "gx" name nothing, nor does nothing at all.
TEST(NamesWithWords, PartsOfWordsNameNothing) {
  const std::vector<std::string> names = {"h100-sxm-dgx"};
  EXPECT_THAT(NamesWithWords("h10", names), IsEmpty());
  EXPECT_THAT(NamesWithWords("dgx-h100-pcie", names), IsEmpty());
  EXPECT_THAT(NamesWithWords("dgx-dgx", names), IsEmpty());
  EXPECT_THAT(NamesWithWords("", names), IsEmpty());
  EXPECT_THAT(NamesWithWords("--", names), IsEmpty());
}

TEST(LoadCluster, TakesEnoughWordsOfAName) {
  EXPECT_EQ(Load({"hardware=dgx-h100"}).hardware.name, "h100-sxm-dgx");
  EXPECT_EQ(Load({"hardware={base: DGX-H100, gpus_per_node: 4}"}).gpus_per_node, 4);
  EXPECT_THAT(ErrorOf({"hardware=dgx"}),
              HasSubstr("hardware: found 'dgx', which may mean b200-dgx, h100-sxm-dgx; allowed: "
                        "the name of one"));
}

// The same rule holds for a job's references.
TEST(LoadJob, TakesEnoughWordsOfAName) {
  const std::string job =
      "hardware: dgx-h100\nmodel: {name: x, layers: [{name: a, forward_flops: 1 TFLOP}]}\n";
  EXPECT_EQ(LoadJobText(job, "job.yaml", {}, Source()).job.hardware.name, "h100-sxm-dgx");
}

}  // namespace
}  // namespace stepsim
