// Whole steps with context parallelism: what hides, what does not, and what one folded rank says of
// all. Orders follow from the schedules (reference, 5.6).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using Sets = std::vector<std::string>;

StepReport ReportOf(const std::string& type, std::int64_t tokens, Sets sets = {}) {
  sets.insert(sets.end(), {"model=llama-3-8b", "plan.context_parallel=4", "memory.limit=10000GiB",
                           "plan.context.comm_type=" + type,
                           "batch.sequence_length=" + std::to_string(tokens)});
  StepReport report = RunStep(testing::LoadShipped("llama-3-8b_fsdp2_16xh100", sets)).report;
  testing::ExpectIdentity(report);
  return report;
}

double Exposed(const StepReport& report) {
  return ToSeconds(report.account().exposed[static_cast<std::size_t>(Site::kContextParallel)]);
}

// A ring hides behind the steps of long sequences, 16384 tokens a rank; of a gather or a swap
// nothing hides, however long.
TEST(ContextParallelStep, OnlyARingHides) {
  const std::int64_t tokens = 65536;
  const double ring = Exposed(ReportOf("p2p", tokens));
  const double gather = Exposed(ReportOf("all_gather", tokens));
  const double swap = Exposed(ReportOf("a2a", tokens));
  EXPECT_LT(ring, 0.05 * gather);
  EXPECT_LT(ring, 0.05 * swap);
}

// Attention's compute grows with the square of the sequence, keys with the sequence: short ones do
// not hide, here over the network between nodes.
TEST(ContextParallelStep, ShortSequencesExposeTheRing) {
  const Sets across = {"plan.mesh_order=tp-dp-cp-pp", "gpus_per_node=4", "nodes=4"};
  const auto share = [&](std::int64_t tokens) {
    const StepReport report = ReportOf("p2p", tokens, across);
    return Exposed(report) / report.step_time_s();
  };
  EXPECT_GT(share(4096), 4 * share(131072));
}

// What is the same on every rank costs the same whether they are simulated or stood for: bit by bit
// where places of the ring do the same.
TEST(ContextParallelStep, FoldedIsUnfolded) {
  const Sets small = {"model.transformer.layers=4", "simulate.steps=1"};
  const auto with = [&](Sets sets) {
    sets.insert(sets.end(), small.begin(), small.end());
    return sets;
  };
  const auto time = [&](const std::string& type, const Sets& sets) {
    return ReportOf(type, 16384, with(sets)).account().step;
  };
  EXPECT_EQ(time("a2a", {}), time("a2a", {"simulate.ranks=all"}));
  // Balanced: the same pairs everywhere, in kernels of other shapes.
  for (const char* type : {"p2p", "all_gather"}) {
    const double folded = ToSeconds(time(type, {}));
    EXPECT_NEAR(ToSeconds(time(type, {"simulate.ranks=all"})), folded, 0.02 * folded) << type;
  }
}

// Not balanced: the last rank has most of the pairs, the others wait for it, and the folded rank is
// that one.
TEST(ContextParallelStep, WithoutBalanceAllWaitForTheLastRank) {
  const Sets sets = {"model.transformer.layers=4", "plan.context.load_balance=false"};
  const auto with = [&](const char* ranks) {
    Sets more = sets;
    more.push_back(ranks);
    return ReportOf("p2p", 65536, more);
  };
  const StepReport folded = with("simulate.ranks=folded");
  const StepReport all = with("simulate.ranks=all");
  EXPECT_NEAR(all.step_time_s(), folded.step_time_s(), 0.01 * folded.step_time_s());
  ASSERT_EQ(all.ranks.size(), 16u);
  EXPECT_GT(all.ranks[0].peer_wait, all.ranks[3].peer_wait);
  EXPECT_LT(all.ranks[0].compute, all.ranks[3].compute);
  const StepReport balanced = ReportOf("p2p", 65536, {"model.transformer.layers=4"});
  EXPECT_GT(folded.step_time_s(), balanced.step_time_s());
}

}  // namespace
}  // namespace stepsim
