// What goes over the wire in a step of FSDP, per strategy and accumulation mode, in closed
// form, as nccl-tests counts bytes. The root's group holds two tensors, each of three layers one;
// S is a tensor's size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tests/support/sharded_step.h"

namespace stepsim {
namespace {

using namespace testing_sharded;

constexpr std::int64_t kSize = kElements * 4;
constexpr std::int64_t kModel = 5 * kSize;
constexpr std::int64_t kTwice = 2 * 3 * kSize + 2 * kSize;  // every unit twice, the root once

struct Wire {
  std::map<CollectiveOp, std::int64_t> bytes;
  std::map<CollectiveOp, std::int64_t> calls;
  std::int64_t gathered() const { return At(CollectiveOp::kAllGather); }
  std::int64_t scattered() const { return At(CollectiveOp::kReduceScatter); }
  std::int64_t reduced() const { return At(CollectiveOp::kAllReduce); }

 private:
  std::int64_t At(CollectiveOp op) const {
    const auto found = bytes.find(op);
    return found == bytes.end() ? 0 : found->second;
  }
};

Wire WireOf(const JobSpec& job, const Workload& workload = ThreeLayers()) {
  const TaskGraph graph = BuildStep(job, workload).graph;
  Wire wire;
  for (const TaskId t : AllIds<TaskId>(graph.task_count())) {
    const auto* work = std::get_if<CollectiveWork>(&graph.work(t));
    if (work == nullptr) continue;
    wire.bytes[work->op] += work->bytes.value;
    ++wire.calls[work->op];
  }
  return wire;
}

JobSpec Fsdp1(ShardingStrategy strategy, int microsteps = 1, bool no_sync = true) {
  JobSpec job = JobWith("fsdp1");
  job.plan.fsdp1.sharding_strategy = strategy;
  job.plan.fsdp1.no_sync = no_sync;
  job.batch.gradient_accumulation_steps = microsteps;
  return job;
}

JobSpec Fsdp2(Fsdp2Plan plan = {}, int microsteps = 1) {
  JobSpec job = JobWith("fsdp2");
  job.plan.fsdp2 = std::move(plan);
  job.batch.gradient_accumulation_steps = microsteps;
  return job;
}

TEST(Fsdp1Volume, PerStrategy) {
  const Wire full = WireOf(Fsdp1(ShardingStrategy::kFullShard));
  EXPECT_EQ(full.gathered(), kTwice);
  EXPECT_EQ(full.scattered(), kModel);
  const Wire grad = WireOf(Fsdp1(ShardingStrategy::kShardGradOp));
  EXPECT_EQ(grad.gathered(), kModel);
  EXPECT_EQ(grad.scattered(), kModel);
  const Wire none = WireOf(Fsdp1(ShardingStrategy::kNoShard));
  EXPECT_EQ(none.gathered() + none.scattered(), 0);
  EXPECT_EQ(none.reduced(), kModel);
}

TEST(Fsdp1Volume, HybridSumsShardsOverTheCopies) {
  for (const auto strategy :
       {ShardingStrategy::kHybridShard, ShardingStrategy::kHybridShardZero2}) {
    JobSpec job = Fsdp1(strategy);
    job.nodes = 2;
    job.gpus_per_node = 4;
    const Wire wire = WireOf(job);
    EXPECT_EQ(wire.gathered(), strategy == ShardingStrategy::kHybridShard ? kTwice : kModel);
    EXPECT_EQ(wire.scattered(), kModel);
    EXPECT_EQ(wire.reduced(), kModel / 4);
  }
}

// no_sync: 2m gathers and one reduction; without: m reductions. A strategy that keeps parameters
// from forward to backward keeps them through no_sync micro-steps as well.
TEST(Fsdp1Volume, Accumulation) {
  constexpr int kMicrosteps = 3;
  const auto full = ShardingStrategy::kFullShard, grad = ShardingStrategy::kShardGradOp;
  EXPECT_EQ(WireOf(Fsdp1(full, kMicrosteps)).gathered(), kMicrosteps * kTwice);
  EXPECT_EQ(WireOf(Fsdp1(full, kMicrosteps)).scattered(), kModel);
  EXPECT_EQ(WireOf(Fsdp1(full, kMicrosteps, false)).gathered(), kMicrosteps * kTwice);
  EXPECT_EQ(WireOf(Fsdp1(full, kMicrosteps, false)).scattered(), kMicrosteps * kModel);
  EXPECT_EQ(WireOf(Fsdp1(grad, kMicrosteps)).gathered(), kModel);
  EXPECT_EQ(WireOf(Fsdp1(grad, kMicrosteps)).scattered(), kModel);
  EXPECT_EQ(WireOf(Fsdp1(grad, kMicrosteps, false)).gathered(), kMicrosteps * kModel);
  EXPECT_EQ(WireOf(Fsdp1(grad, kMicrosteps, false)).scattered(), kMicrosteps * kModel);
}

// Six ranks: 2^20 elements are padded to 6 x 174763, the root's 2^21 to 6 x 349526.
TEST(FsdpVolume, SizesArePadded) {
  constexpr std::int64_t kUnit = 6 * 174'763 * 4, kRoot = 6 * 349'526 * 4;
  JobSpec job = Fsdp1(ShardingStrategy::kFullShard);
  job.gpus_per_node = 6;
  EXPECT_EQ(WireOf(job).gathered(), 2 * 3 * kUnit + kRoot);
  EXPECT_EQ(WireOf(job).scattered(), 3 * kUnit + kRoot);
  job.plan.strategy = "fsdp2";
  EXPECT_EQ(WireOf(job).gathered(), 2 * 3 * kUnit + kRoot);
  EXPECT_EQ(WireOf(job).scattered(), 3 * kUnit + kRoot);
}

// Calls: units times passes.
TEST(Fsdp2Volume, PerReshard) {
  struct Row {
    const char* reshard;
    std::int64_t gathered, calls;
  };
  for (const Row& row :
       {Row{"auto", kTwice, 2 * 3 + 1}, Row{"true", 2 * kModel, 2 * 4}, Row{"false", kModel, 4},
        Row{"4", 2 * kModel, 2 * 4}, Row{"1", kModel, 4}, Row{"8", 2 * kModel, 2 * 4}}) {
    SCOPED_TRACE(row.reshard);
    Wire wire = WireOf(Fsdp2({.reshard_after_forward = row.reshard}));
    EXPECT_EQ(wire.gathered(), row.gathered);
    EXPECT_EQ(wire.calls[CollectiveOp::kAllGather], row.calls);
    EXPECT_EQ(wire.scattered(), kModel);
    EXPECT_EQ(wire.reduced(), 0);
  }
}

// The last group is needed again at once: torchtitan keeps it.
TEST(Fsdp2Volume, KeptGroupsAreGatheredOnce) {
  const Fsdp2Plan plan{.wrap = WrapPolicy::kCustom,
                       .wrap_modules = {"embedding", "layers.*", "head"},
                       .keep_after_forward = {"head"}};
  EXPECT_EQ(WireOf(Fsdp2(plan)).gathered(), 2 * 4 * kSize + kSize);
  Fsdp2Plan skipping = plan;
  skipping.unshard_in_backward = false;  // nor is the embedding, whose backward reads no rows
  EXPECT_EQ(WireOf(Fsdp2(skipping)).gathered(), 2 * 3 * kSize + 2 * kSize);
  EXPECT_EQ(WireOf(Fsdp2(skipping)).scattered(), kModel);
}

TEST(Fsdp2Volume, Hybrid) {
  const Wire wire = WireOf(Fsdp2({.shard_size = 2}));
  EXPECT_EQ(wire.gathered(), kTwice);
  EXPECT_EQ(wire.scattered(), kModel);
  EXPECT_EQ(wire.reduced(), kModel / 2);
}

TEST(Fsdp2Volume, Accumulation) {
  constexpr int kMicrosteps = 3;
  EXPECT_EQ(WireOf(Fsdp2({}, kMicrosteps)).gathered(), kMicrosteps * kTwice);
  EXPECT_EQ(WireOf(Fsdp2({}, kMicrosteps)).scattered(), kMicrosteps * kModel);
  const Wire late = WireOf(Fsdp2({.requires_gradient_sync = false}, kMicrosteps));
  EXPECT_EQ(late.gathered(), kMicrosteps * kTwice);
  EXPECT_EQ(late.scattered(), kModel);
  // Partial sums: the copies share them in the last micro-step only.
  const Wire partial = WireOf(Fsdp2({.shard_size = 4, .requires_all_reduce = false}, kMicrosteps));
  EXPECT_EQ(partial.scattered(), kMicrosteps * kModel);
  EXPECT_EQ(partial.reduced(), kModel / 4);
}

// Nothing is gathered from the second micro-step on when nothing was freed in between.
TEST(Fsdp2Volume, ParametersCanStayBetweenMicrosteps) {
  const Wire wire =
      WireOf(Fsdp2({.reshard_after_forward = "false", .reshard_after_backward = false}, 3));
  EXPECT_EQ(wire.gathered(), kModel);
  EXPECT_EQ(wire.scattered(), 3 * kModel);
  // Freed after forward: once for the first forward, and once for every backward.
  EXPECT_EQ(WireOf(Fsdp2({.reshard_after_forward = "true", .reshard_after_backward = false}, 3))
                .gathered(),
            (1 + 3) * kModel);
}

// The ceiling moves what its strategy moves, earlier.
TEST(FsdpVolume, IdealMovesTheSame) {
  for (const std::string strategy : {"fsdp1", "fsdp2"}) {
    for (const char* reshard : {"auto", "false", "4"}) {
      JobSpec job = Fsdp2({.reshard_after_forward = reshard}, 2);
      job.plan.strategy = strategy;
      const Wire real = WireOf(job);
      job.plan.ideal = true;
      const Wire ideal = WireOf(job);
      EXPECT_EQ(ideal.bytes, real.bytes) << strategy << ' ' << reshard;
      EXPECT_EQ(ideal.calls, real.calls) << strategy << ' ' << reshard;
    }
  }
}

// One GPU: no collective at all, of either.
TEST(FsdpVolume, OneRankTalksToNobody) {
  JobSpec job = Fsdp2();
  job.gpus_per_node = 1;
  EXPECT_EQ(WireOf(job).bytes.size(), 0u);
}

}  // namespace
}  // namespace stepsim
