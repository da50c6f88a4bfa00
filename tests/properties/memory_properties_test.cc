// What holds for the memory of every step? Random jobs of DDP, and small transformers under every
// strategy and way to run them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "sim/metrics/memory_profile.h"
#include "tests/support/published_models.h"
#include "tests/support/random_job.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

void ExpectConsistentPeak(const StepResult& step) {
  const MemoryReport& memory = step.report.memory;
  Bytes sum;
  for (const auto& [category, bytes] : memory.at_peak) {
    EXPECT_GE(bytes.value, 0) << category;
    sum += bytes;
  }
  EXPECT_EQ(sum, memory.total);
  EXPECT_LE(memory.allocated, memory.reserved);
  EXPECT_LE(memory.reserved, memory.total);
  const MemoryReplay replay(step.graph, step.timeline);
  for (const RankId r : AllIds<RankId>(step.graph.rank_count())) {
    const MemoryPeak& peak = memory.ranks[Index(r)];
    EXPECT_LE(peak.total, memory.total);
    Bytes context, highest, first, last;
    replay.Visit(r, [&](const MemoryMoment& moment) {
      if (moment.event == nullptr) first = moment.total;
      last = moment.total;
      if (moment.time <= step.report.window.end) highest = std::max(highest, moment.total);
      for (const Bytes& bytes : moment.now) EXPECT_GE(bytes.value, 0);
    });
    for (const auto& [category, bytes] : peak.at_peak) {
      if (category == kContextMemory) context = bytes;
    }
    EXPECT_EQ(first, last);  // everything goes again
    if (step.report.window.begin > kStepBegin) continue;
    EXPECT_EQ(peak.allocated + context, highest);
  }
}

TEST(Memory, ThePeakIsTheHighestMomentAndTheSumOfItsParts) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ExpectConsistentPeak(RunStep(testing::RandomJob(seed)));
    if (::testing::Test::HasFailure()) return;
  }
}

ResolvedJob SmallTransformer(const std::string& strategy, KernelMode kernels,
                             AttentionKind attention) {
  ResolvedJob job = testing::LoadShipped("gpt2_ddp_8xa100");
  TransformerSpec spec = testing::Gpt2();
  spec.layers = 4;
  job.job.model.network = spec;
  job.job.plan.strategy = strategy;
  job.job.kernels = kernels;
  job.job.attention = attention;
  job.job.batch = {};
  job.job.batch.micro_batch_size = 2;
  job.job.batch.sequence_length = 256;
  return job;
}

void ForEachTransformer(const std::function<void(const ResolvedJob&)>& check) {
  for (const char* strategy : {"none", "ddp", "fsdp1", "fsdp2", "zero", "megatron"}) {
    for (const KernelMode mode : {KernelMode::kEager, KernelMode::kCompiled, KernelMode::kFused}) {
      for (const AttentionKind kind : {AttentionKind::kFlash, AttentionKind::kUnfused}) {
        SCOPED_TRACE(strategy + std::string(" ") + std::to_string(static_cast<int>(mode)) +
                     std::to_string(static_cast<int>(kind)));
        check(SmallTransformer(strategy, mode, kind));
      }
    }
  }
}

TEST(Memory, ConsistentUnderEveryStrategyAndRecomputation) {
  ForEachTransformer([](const ResolvedJob& base) {
    for (const auto granularity : {RecomputeGranularity::kNone, RecomputeGranularity::kSelective,
                                   RecomputeGranularity::kFull}) {
      ResolvedJob job = base;
      job.job.recompute.granularity = granularity;
      ExpectConsistentPeak(RunStep(job));
    }
  });
}

Bytes PeakOf(ResolvedJob job, const RecomputeSpec& recompute) {
  job.job.recompute = recompute;
  return RunStep(job).report.memory.total;
}

// More recomputation never needs more memory, nor less time; off, it changes nothing.
TEST(Memory, RecomputationSavesMemoryAndCostsTime) {
  ForEachTransformer([](const ResolvedJob& job) {
    RecomputeSpec full{RecomputeGranularity::kFull};
    RecomputeSpec op{RecomputeGranularity::kSelective};
    op.policy = RecomputePolicy::kOp;
    const Bytes none = PeakOf(job, {});
    EXPECT_LE(PeakOf(job, {RecomputeGranularity::kSelective}), none);
    EXPECT_LE(PeakOf(job, op), none);
    EXPECT_LE(PeakOf(job, full), PeakOf(job, op));
    Bytes before = none;
    full.method = RecomputeMethod::kBlock;
    for (std::int64_t layers = 1; layers <= 4; ++layers) {
      full.num_layers = layers;
      const Bytes peak = PeakOf(job, full);
      EXPECT_LE(peak, before) << layers;
      before = peak;
    }
    ResolvedJob recomputed = job;
    recomputed.job.recompute.granularity = RecomputeGranularity::kFull;
    const StepReport with = RunStep(recomputed).report;
    const StepReport without = RunStep(job).report;
    EXPECT_GT(with.account().step, without.account().step);
    EXPECT_GT(with.context.hardware_flops.value, without.context.hardware_flops.value);
    EXPECT_EQ(with.context.model_flops, without.context.model_flops);
  });
}

TEST(Memory, ALargerMicroBatchNeverNeedsLess) {
  ForEachTransformer([](const ResolvedJob& base) {
    Bytes before;
    for (const std::int64_t size : {1, 2, 3, 4}) {
      ResolvedJob job = base;
      job.job.batch.micro_batch_size = size;
      const Bytes peak = RunStep(job).report.memory.total;
      EXPECT_GE(peak, before);
      before = peak;
    }
  });
}

// What memory is charged with and how much of it there is changes no time.
TEST(Memory, ChangesNoTime) {
  ForEachTransformer([](const ResolvedJob& base) {
    ResolvedJob job = base;
    job.job.memory.allocator_slack = 2;
    job.job.memory.context = job.job.memory.communicator = Bytes{0};
    job.job.memory.limit = Bytes{1};
    EXPECT_EQ(RunStep(job).report.account().step, RunStep(base).report.account().step);
  });
}

}  // namespace
}  // namespace stepsim
