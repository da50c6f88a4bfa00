// Folded ranks stand for all only where all groups lie alike on the nodes: a warning says so where
// they do not, and where there is none the unfolded step takes as long.
#include "models/uneven_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "models/spec/check_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Twelve GPUs on three nodes, a network that twelve ranks can share.
constexpr const char* kJob =
    "model: {name: small, transformer: {layers: 6, hidden_size: 384, heads: 12, ffn_size: 1536, "
    "vocab_size: 1536, positions: rotary}}\n"
    "hardware: a100-80g-dgx\n"
    "nodes: 3\n"
    "gpus_per_node: 4\n"
    "plan: {strategy: megatron}\n"
    "kernels: fused\n"
    "host: {launch: 0 us}\n"
    "contention: off\n"
    "batch: {sequence_length: 1536, gradient_accumulation_steps: 6}\n";

Duration StepOf(ResolvedJob job, bool unfolds) {
  job.job.simulate.all_ranks = unfolds;
  return RunStep(job).report.account().step;
}

TEST(UnevenRanks, WithoutAWarningOneStandsForAll) {
  const ResolvedJob base = testing::LoadText(kJob, {});
  int alike = 0, uneven = 0, off_by_a_tenth = 0;
  for (const std::int64_t tensor : {1, 2, 3, 4, 6}) {
    for (const std::int64_t pipeline : {1, 2, 3, 4, 6}) {
      for (const std::string order : {"tp-cp-dp-pp", "pp-tp-cp-dp", "dp-pp-tp-cp"}) {
        ResolvedJob job = base;
        job.job.plan.tensor_parallel = tensor;
        job.job.plan.pipeline_parallel = pipeline;
        job.job.plan.mesh_order = order;
        if (12 % (tensor * pipeline) != 0) continue;
        job.job.plan.data_parallel = job.job.replicas();
        if (!IsPossible(job.job)) continue;  // 6 layers do not fill 4 stages
        SCOPED_TRACE(fmt::format("tp {} pp {} {}", tensor, pipeline, order));
        const Duration folded = StepOf(job, false), unfolded = StepOf(job, true);
        if (UnevenRanksWarning(job.job).empty()) {
          ++alike;
          // Not exactly: which neighbours of a pipeline share a node may differ.
          EXPECT_NEAR(ToSeconds(folded), ToSeconds(unfolded), 0.03 * ToSeconds(unfolded));
        } else {
          ++uneven;
          off_by_a_tenth += ToSeconds(unfolded) > 1.1 * ToSeconds(folded) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(alike, 5);
  EXPECT_GT(uneven, 5);
  EXPECT_GT(off_by_a_tenth, 0);  // ranks 3, 4 and 5 lie on two nodes, 0, 1 and 2 on one
}

TEST(UnevenRanks, SaysWhoDiffers) {
  const auto warning = [](const std::vector<std::string>& sets) {
    return UnevenRanksWarning(testing::LoadText(kJob, sets).job);
  };
  EXPECT_EQ(warning({"plan.tensor_parallel=3"}),
            "rank 0 does not stand for all: its tensor parallel group lies on 1 node (at most 3 on "
            "one), that of rank 3 on 2 nodes (at most 2); simulate.ranks=all says what that costs");
  EXPECT_EQ(warning({"plan.tensor_parallel=3", "simulate.ranks=all"}), "");
  EXPECT_EQ(warning({"plan.tensor_parallel=4"}), "");
  EXPECT_THAT(RunStep(testing::LoadText(kJob, {"plan.tensor_parallel=3"})).report.context.warnings,
              Contains(HasSubstr("does not stand for all")));
}

// Copies of the parameters over 6 of 24 ranks: the second one has 2 of its ranks on the first node.
TEST(UnevenRanks, OfHybridShards) {
  const auto warning = [](const std::string& size) {
    return UnevenRanksWarning(testing::LoadShipped("llama-2-7b_hsdp_32xa100",
                                                   {"nodes=3", "plan.fsdp2.shard_size=" + size})
                                  .job);
  };
  EXPECT_THAT(warning("6"), HasSubstr("its shard group lies on 1 node (at most 6 on one), that of "
                                      "rank 6 on 2 nodes (at most 4)"));
  EXPECT_EQ(warning("8"), "");
}

// Experts over 3 ranks of a node of 4.
TEST(UnevenRanks, OfExperts) {
  const auto warning = [](const std::string& ranks) {
    return UnevenRanksWarning(testing::LoadText(kJob, {"model.transformer.experts.count=12",
                                                       "model.transformer.experts.top_k=2",
                                                       "plan.expert_parallel=" + ranks})
                                  .job);
  };
  EXPECT_THAT(warning("3"), HasSubstr("its expert parallel group"));
  EXPECT_EQ(warning("4"), "");
}

TEST(UnevenRanks, NoShippedJobHasThem) {
  for (const std::string name : {"llama-3-405b_tp8_pp16_16384xh100", "llama-3-8b_fsdp2_16xh100",
                                 "mixtral-8x7b_megatron_ep8_64xh100", "llama-2-7b_hsdp_32xa100"}) {
    EXPECT_EQ(UnevenRanksWarning(testing::LoadShipped(name, {}).job), "") << name;
  }
}

}  // namespace
}  // namespace stepsim
