// Context parallelism, slow ranks and jitter: what is refused, and the nearest valid values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/context_split.h"
#include "models/spec/load_job.h"
#include "models/spec/mesh_order.h"
#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

// 16 heads, 4 of keys, on two nodes of 8 GPUs.
std::string ErrorOf(const Sets& sets) {
  const std::string job = R"(model:
  name: tiny
  transformer: {layers: 4, hidden_size: 1024, heads: 16, kv_heads: 4, ffn_size: 2048, vocab_size: 1000}
hardware: h100-sxm-dgx
nodes: 2
batch: {micro_batch_size: 1, sequence_length: 4096}
)";
  try {
    LoadJobText(job, "job.yaml", sets, DirectoryConfigSource(STEPSIM_SOURCE_DIR "/configs"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ContextRules, CutTheSequenceEvenly) {
  EXPECT_EQ(ErrorOf({"plan.context_parallel=8"}), "no error");
  EXPECT_THAT(ErrorOf({"plan.context_parallel=8", "batch.sequence_length=4100"}),
              HasSubstr("cuts sequence_length (4100) into 16 equal pieces; nearest valid: 4096 or "
                        "4112"));
  EXPECT_THAT(ErrorOf({"plan.context_parallel=8", "batch.sequence_length=8"}),
              HasSubstr("nearest valid: 16, or plan.context.load_balance: false"));
  EXPECT_EQ(ErrorOf({"plan.context_parallel=8", "batch.sequence_length=4104",
                     "plan.context.load_balance=false"}),
            "no error");
}

// 4 heads of keys: 8 ranks cannot have equally many; behind tensor_parallel: 4 there is one.
TEST(ContextRules, SwapWholeHeads) {
  EXPECT_EQ(ErrorOf({"plan.context_parallel=4", "plan.context.comm_type=a2a"}), "no error");
  EXPECT_THAT(ErrorOf({"plan.context_parallel=8", "plan.context.comm_type=a2a"}),
              HasSubstr("8 ranks of context_parallel swap sequence for heads and must divide the "
                        "16 heads and 4 kv_heads of a rank of model tiny; nearest valid: "
                        "context_parallel 4, or comm_type p2p or all_gather"));
  EXPECT_THAT(
      ErrorOf({"plan.context_parallel=4", "plan.tensor_parallel=2", "plan.context.comm_type=a2a"}),
      HasSubstr("8 heads and 2 kv_heads"));
  EXPECT_THAT(ErrorOf({"plan.context_parallel=4", "plan.tensor_parallel=4",
                       "plan.context.comm_type=a2a+p2p"}),
              HasSubstr("2 ranks of context_parallel in a node swap sequence for heads and must "
                        "divide the 4 heads and 1 kv_heads of a rank of model tiny; nearest valid: "
                        "comm_type p2p or all_gather"));
}

TEST(ContextRules, NeedFusedAttentionOfATransformer) {
  EXPECT_THAT(ErrorOf({"plan.context_parallel=4", "attention=unfused"}),
              HasSubstr("attention: found 'unfused' with context_parallel (4), whose steps are "
                        "fused kernels, allowed: flash"));
}

TEST(ContextRules, AnOrderNamesEveryAxisOnce) {
  EXPECT_THAT(ErrorOf({"plan.mesh_order=tp-cp-dp-dp"}), HasSubstr("plan.mesh_order: found"));
  for (const char* order :
       {"", "tp", "tp-cp-dp-ppp", "tp_cp_dp_pp", "tpcp--dp-pp", "-tp-cp-dp-p"}) {
    EXPECT_FALSE(IsMeshOrder(order)) << order;
  }
  EXPECT_TRUE(IsMeshOrder("pp-dp-cp-tp"));
}

TEST(ContextSplit, SwapsAmongNeighboursOfANode) {
  JobSpec job;
  job.nodes = 4;
  job.gpus_per_node = 8;
  job.plan.context.comm_type = ContextExchange::kAllToAllP2p;
  const auto split = [&](std::int64_t cp, std::int64_t tp, const char* order = "tp-cp-dp-pp") {
    job.plan.context_parallel = cp;
    job.plan.tensor_parallel = tp;
    job.plan.mesh_order = order;
    const ContextSplit of_job = SplitContext(job);
    return std::pair(of_job.heads, of_job.ring);
  };
  EXPECT_EQ(split(8, 1), std::pair(std::int64_t{8}, std::int64_t{1}));
  EXPECT_EQ(split(16, 1), std::pair(std::int64_t{8}, std::int64_t{2}));
  EXPECT_EQ(split(8, 2), std::pair(std::int64_t{4}, std::int64_t{2}));
  EXPECT_EQ(split(4, 8), std::pair(std::int64_t{1}, std::int64_t{4}));
  EXPECT_EQ(split(8, 1, "tp-dp-cp-pp"), std::pair(std::int64_t{2}, std::int64_t{4}));
}

TEST(SimulateRules, StragglersAreRanksThatAreThere) {
  EXPECT_EQ(ErrorOf({"simulate.ranks=all", "simulate.stragglers=[\"3:1.2\"]"}), "no error");
  EXPECT_EQ(ErrorOf({"simulate.ranks=all", "simulate.stragglers=[\"3:10\",\"3:10\"]"}), "no error");
  EXPECT_THAT(ErrorOf({"simulate.ranks=all", "simulate.stragglers=[\"3:10\",\"3:10\",\"3:2\"]"}),
              HasSubstr("found factors of rank 3 that multiply to 200, allowed: 0.1 to 100"));
  EXPECT_THAT(ErrorOf({"simulate.ranks=all", "simulate.stragglers=[\"16:1.2\"]"}),
              HasSubstr("found rank 16 in '16:1.2', allowed: 0 to 15"));
  for (const char* text : {"3", "3:", ":1.2", "3:0", "-1:2", "1.5:2", "3:nan", "3:1e9"}) {
    EXPECT_THAT(
        ErrorOf({"simulate.ranks=all", "simulate.stragglers=[\"" + std::string(text) + "\"]"}),
        HasSubstr("allowed: RANK:FACTOR"))
        << text;
  }
}

// A folded rank stands for its peers: nobody would wait. A stage of a pipeline is waited for.
TEST(SimulateRules, DifferencesNeedRanksThatDiffer) {
  EXPECT_THAT(ErrorOf({"simulate.stragglers=[\"3:1.2\"]"}),
              HasSubstr("with simulate.ranks: folded, where one rank stands for its peers, "
                        "allowed: with simulate.ranks: all"));
  EXPECT_THAT(ErrorOf({"simulate.jitter=0.1"}), HasSubstr("allowed: 0, or simulate.ranks: all"));
  EXPECT_EQ(ErrorOf({"simulate.ranks=all", "simulate.jitter=0.1", "simulate.seed=5"}), "no error");
  const Sets pipeline = {"plan.pipeline_parallel=2", "batch.gradient_accumulation_steps=4"};
  const auto with = [&](const char* set) {
    Sets sets = pipeline;
    sets.push_back(set);
    return ErrorOf(sets);
  };
  EXPECT_EQ(with("simulate.stragglers=[\"8:1.2\"]"), "no error");
  EXPECT_EQ(with("simulate.jitter=0.1"), "no error");
  EXPECT_THAT(with("simulate.stragglers=[\"9:1.2\"]"),
              HasSubstr("for all ranks of a stage, of which the first are 0 to 8 in steps of 8"));
}

}  // namespace
}  // namespace stepsim
