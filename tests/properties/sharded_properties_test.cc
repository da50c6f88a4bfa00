// What holds for every sharded step, whatever the network, cluster and knobs?
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/run_step.h"
#include "models/spec/wrap_modules.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr std::uint64_t kJobs = 300;

// Bits that do not follow from those which choose the strategy.
class Bits {
 public:
  explicit Bits(std::uint64_t seed) : bits_((seed + 1) * 0x9E3779B97F4A7C15ull) {}
  bool Next() { return (bits_ = bits_ << 7 | bits_ >> 57) & 1; }

 private:
  std::uint64_t bits_;
};

void SetZeroKnobs(std::uint64_t seed, JobSpec& job) {
  ZeroPlan& zero = job.plan.zero;
  Bits bits(seed);
  zero.stage = 1 + static_cast<std::int64_t>(seed / 4 % 3);
  zero.overlap_comm = bits.Next();
  zero.reduce_bucket_size = bits.Next() ? 1'000'000 : 100'000;
  zero.contiguous_gradients = bits.Next() || bits.Next();
  zero.reduce_scatter = bits.Next() || bits.Next();
  zero.use_multi_rank_bucket_allreduce = bits.Next();
  zero.round_robin_gradients = bits.Next();
  zero.allgather_partitions = bits.Next();
  zero.allgather_into_tensor = bits.Next();
  zero.allgather_bucket_size = 1'000'000;
  if (bits.Next()) zero.iteration = TrainingIteration::kFirst;
  zero.stage3_prefetch_bucket_size = bits.Next() ? 1'000'000 : 0;
  zero.stage3_max_live_parameters = bits.Next() ? 3'000'000 : 1'000'000'000;
  zero.stage3_max_reuse_distance = bits.Next() ? 1'000'000 : 1'000'000'000;
  zero.stage3_param_persistence_threshold = bits.Next() ? 1000 : 100'000;
  zero.stage3_module_granularity_threshold = bits.Next() ? 100'000 : 0;
  if (bits.Next()) zero.stage3_leaf_modules = LeafModules::kLayers;
  zero.stage3_allgather_sequential = bits.Next();
  zero.sub_group_size = bits.Next() ? 100'000 : 1'000'000'000;
  if (bits.Next()) zero.zero_hpz_partition_size = job.gpus_per_node;
  zero.separate_reduce_group = bits.Next();
}

void SetMegatronKnobs(std::uint64_t seed, JobSpec& job) {
  MegatronPlan& megatron = job.plan.megatron;
  Bits bits(seed);
  megatron.use_distributed_optimizer = bits.Next() || bits.Next();
  megatron.overlap_grad_reduce = bits.Next() || bits.Next();
  megatron.overlap_param_gather =
      megatron.use_distributed_optimizer && megatron.overlap_grad_reduce && bits.Next();
  megatron.ddp_bucket_size = 1'000'000;
  megatron.pad_buckets_for_high_nccl_busbw = bits.Next();
  megatron.average_in_collective = bits.Next();
  megatron.grad_reduce_in_fp32 = bits.Next();
  if (!megatron.use_distributed_optimizer) return;
  megatron.reduce_scatter_with_fp32_accumulation = job.precision.compute == DType::kBf16 &&
                                                   !*megatron.grad_reduce_in_fp32 &&
                                                   job.collectives.model == CollectiveModel::kNccl;
  if (!megatron.reduce_scatter_with_fp32_accumulation && bits.Next()) {
    megatron.num_distributed_optimizer_instances = job.nodes;
  }
}

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
  plan.fsdp1.iteration = seed % 13 == 0 ? TrainingIteration::kFirst : TrainingIteration::kSteady;
  plan.fsdp2.wrap = bit(2) ? WrapPolicy::kMinParameters : WrapPolicy::kLayer;
  plan.fsdp2.wrap_min_parameters = 1'000'000;
  if (seed % 5 == 0) {  // every second unit, and the two last ones together
    plan.fsdp1.wrap = plan.fsdp2.wrap = WrapPolicy::kCustom;
    const std::vector<std::string> units = UnitNames(job.job);
    std::size_t u = 0;
    for (; u + 2 < units.size(); u += 2) plan.fsdp1.wrap_modules.push_back(units[u]);
    if (u + 1 < units.size()) {
      plan.fsdp1.wrap_modules.push_back(units[units.size() - 2] + "+" + units.back());
    }
    plan.fsdp2.wrap_modules = plan.fsdp1.wrap_modules;
  }
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
  SetZeroKnobs(seed, job.job);
  SetMegatronKnobs(seed, job.job);
  if (seed % 7 == 0 && std::holds_alternative<TransformerSpec>(job.job.model.network)) {
    job.job.recompute.granularity = RecomputeGranularity::kFull;
    job.job.recompute.num_layers = 1 + static_cast<std::int64_t>(seed % 3);
  }
  job.job.contention = bit(5) ? ContentionMode::kFull : ContentionMode::kOff;
  return job;
}

TEST(ShardedStep, EveryPicosecondIsAccountedFor) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StepResult result = RunStep(ShardedJob(seed));
    testing::ExpectIdentity(result.report);
    testing::ExpectPathTilesStep(result.graph, result.timeline, result.report);
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
    SCOPED_TRACE("seed " + std::to_string(seed));
    if (seed % 3 == 0) job.job.host = testing::RandomJobWithHost(seed).job.host;
    // Megatron's blocking gathers end the step: their way to the next one's compute is outside.
    if (job.job.plan.strategy == "megatron") job.job.host.event_handover = Duration::zero();
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
