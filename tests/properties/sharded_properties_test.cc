// What holds for every sharded step, whatever the network, cluster and knobs?
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/run_step.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr std::uint64_t kJobs = 300;

// A random job under one of the sharded strategies; the seed's bits are the knobs.
ResolvedJob ShardedJob(std::uint64_t seed) {
  ResolvedJob job = testing::RandomJob(seed);
  ParallelPlan& plan = job.job.plan;
  const auto bit = [&](int i) { return (seed >> i & 1) != 0; };
  plan.strategy = std::vector<std::string>{"fsdp1", "fsdp2", "zero", "megatron"}[seed % 4];
  plan.fsdp1.sharding_strategy = static_cast<ShardingStrategy>(seed / 4 % 5);
  plan.fsdp1.shard_size = job.job.gpus_per_node;
  plan.fsdp1.backward_prefetch = static_cast<BackwardPrefetch>(seed / 20 % 3);
  plan.fsdp1.forward_prefetch = bit(2);
  plan.fsdp1.limit_all_gathers = bit(3);
  plan.fsdp1.no_sync = bit(4);
  plan.fsdp1.iteration = seed % 13 == 0 ? FsdpIteration::kFirst : FsdpIteration::kSteady;
  plan.fsdp2.wrap = bit(2) ? WrapPolicy::kMinParameters : WrapPolicy::kLayer;
  plan.fsdp2.wrap_min_parameters = 1'000'000;
  plan.fsdp2.reshard_after_forward = std::vector<std::string>{
      "auto", "true", "false", std::to_string(job.job.gpus_per_node)}[seed / 4 % 4];
  plan.fsdp2.forward_prefetch = static_cast<std::int64_t>(seed / 8 % 3);
  plan.fsdp2.backward_prefetch = static_cast<std::int64_t>(seed / 16 % 3);
  plan.fsdp2.shard_size = bit(5) ? job.job.gpus_per_node : 0;
  plan.fsdp2.requires_gradient_sync = bit(3);
  plan.fsdp2.reshard_after_backward = bit(4);
  plan.fsdp2.is_last_backward = bit(6);
  plan.fsdp2.requires_all_reduce = bit(7);
  plan.fsdp2.unshard_async_op = seed % 11 == 0;
  plan.fsdp2.reduce_dtype =
      std::vector<std::optional<DType>>{std::nullopt, DType::kFp32, DType::kFp16}[seed / 32 % 3];
  plan.zero.stage = 1 + static_cast<std::int64_t>(seed / 4 % 3);
  plan.zero.overlap_comm = bit(4);
  plan.zero.reduce_bucket_size = 1'000'000;
  plan.zero.use_multi_rank_bucket_allreduce = bit(5);
  plan.zero.stage3_prefetch_bucket_size = bit(3) ? 1'000'000 : 0;
  plan.zero.stage3_max_reuse_distance = bit(2) ? 1'000'000 : 1'000'000'000;
  plan.megatron.use_distributed_optimizer = bit(2);
  plan.megatron.overlap_grad_reduce = bit(3);
  plan.megatron.overlap_param_gather = bit(2) && bit(3) && bit(4);
  plan.megatron.ddp_bucket_size = 1'000'000;
  job.job.contention = bit(5) ? ContentionMode::kFull : ContentionMode::kOff;
  return job;
}

TEST(ShardedStep, EveryPicosecondIsAccountedFor) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::ExpectIdentity(RunStep(ShardedJob(seed)).report);
  }
}

// Ranks that do the same do it at the same time: folding them changes nothing.
TEST(ShardedStep, FoldingIsExact) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    ResolvedJob job = ShardedJob(seed);
    if (job.job.gpus() > 6) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Duration folded = RunStep(job).report.account().step;
    job.job.simulate.all_ranks = true;
    EXPECT_EQ(RunStep(job).report.account().step, folded);
  }
}

// The ceiling is one: no prefetch, communicator or limiter makes the same traffic faster.
// (Contention may: more overlap takes more from compute.)
TEST(ShardedStep, IdealIsNeverSlower) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    ResolvedJob job = ShardedJob(seed);
    if (job.job.plan.strategy != "fsdp1" && job.job.plan.strategy != "fsdp2") continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    job.job.contention = ContentionMode::kOff;
    if (seed % 3 == 0) job.job.host = testing::RandomJobWithHost(seed).job.host;
    const Duration real = RunStep(job).report.account().step;
    job.job.plan.ideal = true;
    EXPECT_LE(RunStep(job).report.account().step, real);
  }
}

// Nothing is freed that was not there, and all that came goes again: at the end the rank holds what
// it held before. (In tasks' order of time; equal times in any order.)
TEST(ShardedStep, MemoryComesAndGoes) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StepResult step = RunStep(ShardedJob(seed));
    std::map<std::uint8_t, std::map<SimTime, std::int64_t>> changes;
    for (const MemoryEvent& event : step.graph.memory_events()) {
      const SimTime when =
          event.at_end ? step.timeline.end[event.task] : step.timeline.start[event.task];
      changes[event.category][when] += event.delta.value;
    }
    for (const auto& [category, series] : changes) {
      std::int64_t bytes = 0;
      for (const auto& [when, delta] : series) {
        bytes += delta;
        EXPECT_GE(bytes, 0) << step.graph.memory_categories()[category];
      }
      EXPECT_EQ(bytes, 0) << step.graph.memory_categories()[category];
    }
  }
}

}  // namespace
}  // namespace stepsim
