// Which bucket size is best? Small buckets pay the ring's latency again and again, large ones start
// late and leave a long tail: exposure against bucket_cap_mb is U-shaped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::Lt;
using ::testing::StartsWith;

StepReport RunWithCap(const ResolvedJob& base, double cap_mb) {
  ResolvedJob job = base;
  job.job.plan.ddp.bucket_cap_mb = cap_mb;
  StepReport report = RunStep(job).report;
  testing::ExpectIdentity(report);
  return report;
}

double Exposed(const StepReport& report) { return ToSeconds(report.account().exposed_total()); }

// ---- Equal layers: a closed form ----

// 1024 layers of one 1 MiB tensor on four nodes of eight A40 over 10 Gb/s. No launch latency
// and an ideal host, so that a layer's backward is two kernels of the stated FLOPs and one copy.
constexpr int kEqualLayers = 1024;
constexpr double kBackwardFlops = 210e9;
constexpr double kTensor = 1 << 20;

ResolvedJob EqualLayers() {
  std::string layers;
  for (int i = 0; i < kEqualLayers; ++i) {
    layers += fmt::format(
        "    - {{name: l{0}, parameters: [{{name: w{0}, elements: 262144}}], forward_flops: 105 "
        "GFLOP, backward_flops: 210 GFLOP}}\n",
        i);
  }
  return testing::LoadText(fmt::format(
      "model:\n  name: equal\n  layers:\n{}"
      "hardware: {{base: a40-pcie, gpu: {{kernel_latency: 0 us}}}}\n"
      "network: ethernet-10g\nnodes: 4\n"
      "plan: {{ddp: {{gradient_as_bucket_view: true, bucket_cap_mb: 1}}}}\noptimizer: none\n"
      "host: {{launch: 0 us}}\ncontention: off\ncollectives: {{model: alpha_beta}}\n",
      layers));
}

// m = 1024 / k buckets of k layers; each computes for c and is reduced in d. A pipeline of two
// stages: with d <= c only the last bucket sticks out, with d > c the ring is busy from the first
// bucket on.
double ExposedByHand(const HardwareSpec& hardware, int layers_per_bucket) {
  const GpuSpec& gpu = hardware.gpu;
  const double copy = 2 * kTensor / (gpu.hbm_bandwidth.value * gpu.memory_efficiency);
  const double layer = kBackwardFlops / (gpu.peak.bf16.value * gpu.gemm_efficiency) + copy;
  const LinkSpec& link = hardware.network.link;  // one adapter: the slowest link of the ring
  const double n = 32;
  const double k = layers_per_bucket;
  const double c = k * layer;
  const double d = 2 * (n - 1) * ToSeconds(link.latency) +
                   2 * (n - 1) / n * k * kTensor / (link.bandwidth.value * link.efficiency);
  const double m = kEqualLayers / k;
  return d <= c ? d : c + m * d - m * c;
}

TEST(BucketSize, EqualLayersFollowTheTwoStagePipeline) {
  const ResolvedJob base = EqualLayers();
  // A picosecond for each kernel and collective.
  constexpr double kRounding = 5 * kEqualLayers * 1e-12;
  for (int k = 1; k <= kEqualLayers; k *= 2) {
    EXPECT_NEAR(Exposed(RunWithCap(base, k)), ExposedByHand(base.job.hardware, k), kRounding) << k;
  }
}

// Falls to a minimum strictly inside, then rises.
void ExpectUShape(const std::vector<double>& exposed) {
  const auto best = std::min_element(exposed.begin(), exposed.end());
  EXPECT_NE(best, exposed.begin());
  EXPECT_NE(best, exposed.end() - 1);
  EXPECT_TRUE(std::is_sorted(std::make_reverse_iterator(best), exposed.rend()));
  EXPECT_TRUE(std::is_sorted(best, exposed.end()));
}

TEST(BucketSize, ExposureIsUShaped) {
  const ResolvedJob base = EqualLayers();
  std::vector<double> exposed;
  for (int cap = 1; cap <= kEqualLayers; cap *= 2)
    exposed.push_back(Exposed(RunWithCap(base, cap)));
  ExpectUShape(exposed);
  EXPECT_LT(exposed[2] * 10, exposed.front());  // and not just barely
  EXPECT_LT(exposed[2] * 10, exposed.back());
}

// The claim of configs/jobs/gpt2_ddp_32xa40_25gbe.yaml, at caps that close buckets differently.
TEST(BucketSize, Gpt2OverEthernetIsUShaped) {
  for (const char* network : {"ethernet-25g", "ethernet-10g"}) {
    const ResolvedJob base =
        testing::LoadShipped("gpt2_ddp_32xa40_25gbe", {fmt::format("network={}", network)});
    std::vector<double> exposed;
    for (const double cap : {0.25, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0}) {
      exposed.push_back(Exposed(RunWithCap(base, cap)));
    }
    ExpectUShape(exposed);
  }
}

// ---- The tail ----

// The last bucket is complete when backward ends: whatever the cap, all of it sticks out.
TEST(BucketSize, TheTailNeverReachesZero) {
  for (const char* job : {"gpt2_ddp_32xa40_25gbe", "bert-large_ddp_32xv100", "resnet-50_ddp_8xv100",
                          "llama-3.2-3b_ddp_16xa100"}) {
    const ResolvedJob base = testing::LoadShipped(job, {"plan.ddp.gradient_as_bucket_view=true"});
    for (const double cap : {0.01, 1.0, 10.0, 100.0, 1000.0, 10000.0}) {
      const StepReport report = RunWithCap(base, cap);
      const CollectiveReport& last = report.collectives.back();
      EXPECT_EQ(last.exposed, last.end - last.start) << job << " " << cap;
      EXPECT_GT(last.exposed, Duration::zero()) << job << " " << cap;
      EXPECT_THAT(last.cause, StartsWith("ready last")) << job << " " << cap;
    }
  }
}

// A tied embedding is one tensor, is ready last and cannot be split: for every cap the time that
// its bytes alone need is exposed.
TEST(BucketSize, AGiantTensorLosesThePipeliningWhateverTheCap) {
  struct Case {
    const char* job;
    double embedding_bytes;  // fp32
    double ranks;
  };
  for (const Case& c : {Case{"llama-3.2-3b_ddp_16xa100", 4.0 * 128256 * 3072, 16},
                        Case{"gpt2_ddp_32xa40_25gbe", 4.0 * 50257 * 768, 32}}) {
    const ResolvedJob base = testing::LoadShipped(c.job);
    const NetworkSpec& network = base.job.hardware.network;
    const LinkSpec& intra = base.job.hardware.intra_node;
    const double uplink = network.link.bandwidth.value * network.link.efficiency *
                          static_cast<double>(network.nics_per_node);
    const double slowest = std::min(uplink, intra.bandwidth.value * intra.efficiency);
    const double alone = 2 * (c.ranks - 1) / c.ranks * c.embedding_bytes / slowest;
    for (double cap = 1; cap <= 1000; cap *= 2) {
      const StepReport report = RunWithCap(base, cap);
      EXPECT_THAT(ToSeconds(report.collectives.back().exposed), Gt(alone)) << c.job << " " << cap;
      EXPECT_THAT(Exposed(report), AllOf(Gt(alone), Lt(report.step_time_s()))) << cap;
    }
  }
}

}  // namespace
}  // namespace stepsim
