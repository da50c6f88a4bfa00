// What a job may say about its collectives, and how it is told.
#include "models/spec/check_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/load_job.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

constexpr const char* kBox = R"(name: box
gpus_per_node: 4
gpu: {name: chip, peak: {fp32: 10 TFLOP/s}, hbm_bandwidth: 1 TB/s, memory: 80 GiB, sms: 100}
intra_node: {type: nvlink, bandwidth: 100 GB/s, latency: 2 us}
network: {name: fast, nics_per_node: 4, link: {type: infiniband, bandwidth: 200 Gb/s}}
)";
constexpr const char* kModel = "name: one\nlayers: [{name: a, forward_flops: 1 MFLOP}]\n";
constexpr const char* kJob =
    "{model: one, hardware: box, nodes: 2, precision: {compute: fp32, parameters: fp32}}";

std::string ErrorOf(const std::vector<std::string>& sets) {
  const MemoryConfigSource source({{"hardware/box.yaml", kBox}, {"models/one.yaml", kModel}});
  try {
    LoadJobText(kJob, "job.yaml", sets, source);
  } catch (const ConfigError& error) {
    return error.diagnostics().front().message;
  }
  return "no error";
}

TEST(CheckCollectives, TakesNcclsGrammar) {
  EXPECT_EQ(ErrorOf({"collectives.algorithm=allreduce:tree,ring;allgather:ring"}), "no error");
  EXPECT_EQ(ErrorOf({"collectives.protocol=^LL128", "collectives.nccl_version=2.18.5+"}),
            "no error");
  EXPECT_EQ(ErrorOf({"collectives.all_reduce=NVLSTree"}), "no error");
}

TEST(CheckCollectives, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf({"collectives.algorithm=rnig"}),
              HasSubstr("collectives.algorithm: found 'rnig', allowed: tree, ring, "));
  EXPECT_THAT(ErrorOf({"collectives.protocol=simpel"}), HasSubstr("did you mean 'simple'?"));
  EXPECT_EQ(ErrorOf({"collectives.nccl_version=latest"}),
            "collectives.nccl_version: found 'latest', allowed: a release of NCCL such as 2.18 or "
            "2.27.3");
  EXPECT_EQ(ErrorOf({"collectives.min_ctas=8", "collectives.max_ctas=4"}),
            "collectives.min_ctas: found 8, allowed: at most collectives.max_ctas (4)");
}

TEST(CheckCollectives, AllReduceIsOneAlgorithm) {
  for (const char* text : {"tree,ring", "^ring", "allreduce:ring", "pat", "two_level"}) {
    EXPECT_THAT(ErrorOf({"collectives.all_reduce=" + std::string(text)}),
                HasSubstr("allowed: tree, ring, collnet_direct"))
        << text;
  }
  EXPECT_EQ(ErrorOf({"collectives.model=alpha_beta", "collectives.all_reduce=hierarchical"}),
            "no error");
  EXPECT_EQ(ErrorOf({"collectives.model=alpha_beta", "collectives.all_reduce=tree"}),
            "collectives.all_reduce: found 'tree', allowed: ring, hierarchical");
}

TEST(CheckCollectives, KeysOfTheOtherModel) {
  EXPECT_EQ(ErrorOf({"collectives.model=alpha_beta", "collectives.algorithm=ring"}),
            "collectives.algorithm: has no effect with collectives.model: alpha_beta");
  EXPECT_EQ(ErrorOf({"collectives.model=alpha_beta", "hardware.intra_node.latency=3 us"}),
            "no error");
  EXPECT_EQ(ErrorOf({"hardware.intra_node.latency=3 us"}),
            "hardware.intra_node.latency: has no effect with collectives.model: nccl; see "
            "added_latency");
  EXPECT_EQ(
      ErrorOf({"collectives.model=alpha_beta", "hardware.network.link.added_latency=3 us"}),
      "hardware.network.link.added_latency: has no effect with collectives.model: alpha_beta");
}

TEST(CheckCollectives, EfficiencyIsForRegisteredBuffers) {
  EXPECT_THAT(ErrorOf({"collectives.cta_policy=efficiency"}),
              HasSubstr("has no effect with collectives.registered_buffers: false"));
  EXPECT_EQ(ErrorOf({"collectives.cta_policy=efficiency", "collectives.registered_buffers=true"}),
            "no error");
}

TEST(CheckCollectives, KeysOfALaterRelease) {
  EXPECT_EQ(ErrorOf({"collectives.symmetric_memory=true"}), "no error");
  EXPECT_THAT(ErrorOf({"collectives.symmetric_memory=true", "collectives.nccl_version=2.26"}),
              HasSubstr("has no effect with collectives.nccl_version before 2.27"));
  EXPECT_THAT(ErrorOf({"collectives.cta_policy=zero", "collectives.nccl_version=2.27.7"}),
              HasSubstr("has no effect with collectives.nccl_version before 2.28"));
  EXPECT_EQ(ErrorOf({"collectives.cta_policy=zero", "collectives.nccl_version=2.28"}), "no error");
}

TEST(CheckCollectives, GlooHasThreadsAndNothingOfNccl) {
  EXPECT_EQ(ErrorOf({"collectives.model=gloo", "collectives.gloo_threads=1"}), "no error");
  EXPECT_EQ(ErrorOf({"collectives.model=gloo", "collectives.protocol=ll"}),
            "collectives.protocol: has no effect with collectives.model: gloo");
  EXPECT_EQ(ErrorOf({"collectives.gloo_threads=1"}),
            "collectives.gloo_threads: has no effect with collectives.model: nccl");
  EXPECT_EQ(ErrorOf({"collectives.model=gloo", "collectives.all_reduce=hierarchical"}),
            "collectives.all_reduce: found 'hierarchical', allowed: ring");
  EXPECT_EQ(ErrorOf({"collectives.model=gloo", "hardware.network.link.added_latency=3 us"}),
            "hardware.network.link.added_latency: has no effect with collectives.model: gloo");
}

}  // namespace
}  // namespace stepsim
