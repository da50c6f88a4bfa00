#include "tools/calibrate/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "models/spec/load_job.h"
#include "tools/calibrate/job_shapes.h"

namespace stepsim::measure {
namespace {

using testing::ElementsAre;

DeviceLimits Gpu() {
  DeviceLimits limits;
  limits.sms = 132;
  limits.dtypes = {"bf16", "fp8"};
  limits.has_cta_limit = true;
  return limits;
}

std::vector<MeasureTask> TasksOf(const PlanRequest& request, int ranks) {
  std::vector<MeasureTask> tasks;
  for (const PlannedTask& planned : MakePlan(request, Gpu(), ranks)) tasks.push_back(planned.task);
  return tasks;
}

PlanRequest Only(const std::string& kind) {
  PlanRequest request;
  request.kinds = {kind};
  return request;
}

// The two ends, the middle, the quarters, by the definition.
TEST(CoarseToFine, HalvesTheGaps) {
  EXPECT_THAT(CoarseToFine(9), ElementsAre(0, 3, 2, 3, 1, 3, 2, 3, 0));
  EXPECT_THAT(CoarseToFine(2), ElementsAre(0, 0));
  EXPECT_THAT(CoarseToFine(1), ElementsAre(0));
  EXPECT_TRUE(CoarseToFine(0).empty());
}

TEST(Plan, UsefulFirst) {
  const auto plan = MakePlan({}, Gpu(), 8);
  std::set<std::string_view> kinds;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(plan[i - 1].level, plan[i].level);
    }
    if (i < TaskKinds().size()) kinds.insert(KindOf(plan[i].task));
  }
  // Whatever the budget cuts, each kind has had its turn.
  EXPECT_EQ(kinds.size(), TaskKinds().size());
}

TEST(Plan, NothingTwice) {
  std::set<std::string> seen;
  PlanRequest request;
  request.max_ctas = {4, 16};
  for (const MeasureTask& task : TasksOf(request, 8)) {
    EXPECT_TRUE(seen.insert(Describe(task)).second) << Describe(task);
  }
}

TEST(Plan, OneRankHasNoCollectives) {
  for (const MeasureTask& task : TasksOf({}, 1)) EXPECT_FALSE(IsCollective(task)) << Describe(task);
  bool has_copy = false;
  for (const MeasureTask& task : TasksOf(Only("interference"), 1)) {
    has_copy = has_copy || std::holds_alternative<InterferenceTask>(task);
  }
  EXPECT_TRUE(has_copy);
}

TEST(Plan, CollectivesInAndOutOfPlaceWithLimits) {
  PlanRequest request = Only("collective");
  request.min_bytes = 1 << 20;
  request.max_bytes = 1 << 24;
  request.max_ctas = {8};
  std::set<std::pair<CollectiveKind, bool>> flavours;
  std::set<std::int64_t> sizes;
  bool has_limit = false;
  for (const MeasureTask& task : TasksOf(request, 2)) {
    const auto& collective = std::get<CollectiveTask>(task);
    flavours.insert({collective.op, collective.in_place});
    sizes.insert(collective.bytes);
    has_limit = has_limit || collective.max_ctas == 8;
  }
  // Five operations out of place; the three that NCCL runs in place also so.
  EXPECT_EQ(flavours.size(), 8U);
  EXPECT_THAT(sizes, ElementsAre(1 << 20, 1 << 22, 1 << 24));
  EXPECT_TRUE(has_limit);
}

TEST(Plan, SweepsTheSmsOfTheCopy) {
  std::vector<int> sms;
  for (const MeasureTask& task : TasksOf(Only("interference"), 1)) {
    sms.push_back(std::get<CopyLoad>(std::get<InterferenceTask>(task).beside).sms);
  }
  EXPECT_THAT(sms, testing::UnorderedElementsAre(2, 4, 8, 16, 32, 64));
}

// A transformer layer by hand: h = 8 heads of 4, 32 tokens, MLP of 64, vocabulary of 128.
TEST(JobShapes, ProductsOfANetwork) {
  MemoryConfigSource source({});
  const auto resolved = LoadJobText(R"(
model:
  name: tiny
  transformer: {layers: 1, hidden_size: 32, heads: 8, kv_heads: 8, head_dim: 4, ffn_size: 64,
                vocab_size: 128, positions: rotary, norm: rms_norm}
hardware:
  name: box
  gpus_per_node: 1
  gpu: {name: chip, peak: {bf16: 1 TFLOP/s}, hbm_bandwidth: 1 GB/s, memory: 1 GB, sms: 4}
  intra_node: {type: nvlink, bandwidth: 1 GB/s, latency: 1 us}
  network: {name: net, nics_per_node: 1, link: {type: ethernet, bandwidth: 1 GB/s, latency: 1 us}}
plan: {strategy: none}
batch: {micro_batch_size: 2, sequence_length: 16}
)",
                                    "job.yaml", {}, source);
  const JobShapes shapes = ShapesOf(resolved.job);
  const auto has = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    for (const GemmTask& gemm : shapes.gemms) {
      if (gemm.m == m && gemm.n == n && gemm.k == k) return true;
    }
    return false;
  };
  EXPECT_TRUE(has(32, 64, 32));   // up: tokens x ffn x hidden
  EXPECT_TRUE(has(32, 32, 64));   // down, and up's input gradient
  EXPECT_TRUE(has(64, 32, 32));   // up's weight gradient
  EXPECT_TRUE(has(32, 128, 32));  // the head
  ASSERT_EQ(shapes.attention.size(), 1U);
  EXPECT_EQ(Describe(shapes.attention[0]), "attention 2x8x16x4 bf16 causal");
}

}  // namespace
}  // namespace stepsim::measure
