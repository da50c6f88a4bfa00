// Does the advice hold what it promises? Every change that is said to fit is made as a user would
// make it, with --set, and its peak compared with the number in the text.
#include "models/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "models/simulate_job.h"
#include "sim/base/diagnostics.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kDdp = "llama-3.2-3b_ddp_16xa100";
const std::vector<std::string> kLarge = {"batch.micro_batch_size=4",
                                         "batch.gradient_accumulation_steps=1"};

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> With(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(MemoryAdvice, EveryChangeThatIsSaidToFitFits) {
  const ResolvedJob job = testing::LoadShipped(kDdp, kLarge);
  ASSERT_GT(RunStep(job).report.memory.total, job.job.memory_limit());
  const MemoryAdvice advice = AdviseMemory(job.job);
  ASSERT_THAT(advice.fits, Not(IsEmpty()));
  for (const TriedChange& change : advice.fits) {
    SCOPED_TRACE(change.settings);
    const std::vector<std::string> sets = With(kLarge, Words(change.settings));
    const StepReport changed = RunStep(testing::LoadShipped(kDdp, sets)).report;
    EXPECT_EQ(changed.memory.total, change.needed);
    EXPECT_LE(changed.memory.total, job.job.memory_limit());
    EXPECT_EQ(changed.account().step, change.step);
  }
}

// Also where what was given has no effect any more: it is taken out in the same line. Nothing that
// FSDP or DeepSpeed refuse is said: checkpoints over several layers, stage 3 in a CUDA graph.
TEST(MemoryAdvice, IsAcceptedBesideWhatWasGiven) {
  struct Case {
    std::string job;
    std::vector<std::string> sets;
  };
  const std::string fsdp1 = "gpt2-xl_fsdp1_16xa40_25gbe", zero = "llama-2-7b_zero3_16xa100";
  for (const Case& c : {
           Case{fsdp1, {"plan.fsdp1.sharding_strategy=HYBRID_SHARD", "plan.fsdp1.shard_size=4"}},
           Case{fsdp1,
                {"recompute.granularity=selective", "recompute.policy=layer",
                 "recompute.num_layers=2"}},
           Case{zero, {"plan.zero.stage=1", "plan.zero.allgather_partitions=false"}},
           Case{zero, {"plan.zero.stage=2", "host.cuda_graphs=true"}},
           Case{kDdp,
                {"plan.ddp.bucket_cap_mb=50", "recompute.granularity=full",
                 "recompute.num_layers=2"}},
       }) {
    const std::vector<std::string> sets = With(c.sets, {"memory.limit=4 GiB"});
    const MemoryAdvice advice = AdviseMemory(testing::LoadShipped(c.job, sets).job);
    std::vector<TriedChange> changes = advice.fits;
    changes.push_back(advice.least);
    for (const TriedChange& change : changes) {
      SCOPED_TRACE(c.job + " " + c.sets.back() + ": " + change.settings);
      const ResolvedJob made = testing::LoadShipped(c.job, With(sets, Words(change.settings)));
      EXPECT_EQ(TryJob(made.job).peak_memory, change.needed);
    }
  }
}

// Keys that the change leaves without effect are taken out with it: else it would be refused.
TEST(MemoryAdvice, CanBePastedBehindAnyJob) {
  struct Case {
    const char* job;
    std::vector<std::string> sets;
    const char* taken_out;
  };
  const Case cases[] = {
      {"llama-2-7b_zero3_16xa100",
       {"memory.limit=30 GiB", "plan.zero.stage=1", "plan.zero.allgather_partitions=false"},
       "plan.zero.stage=3 plan.zero.allgather_partitions=null"},
      {"gpt2-xl_fsdp1_16xa40_25gbe",
       {"memory.limit=16 GiB", "plan.fsdp1.sharding_strategy=HYBRID_SHARD",
        "plan.fsdp1.shard_size=2"},
       "plan.fsdp1.sharding_strategy=FULL_SHARD plan.fsdp1.shard_size=null"},
      {"llama-3-8b_fsdp2_16xh100",
       {"memory.limit=40 GiB", "recompute.granularity=selective", "recompute.modules.mlp=true"},
       "recompute.granularity=full recompute.modules=null"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.taken_out);
    const ResolvedJob job = testing::LoadShipped(c.job, c.sets);
    const MemoryAdvice advice = AdviseMemory(job.job);
    std::vector<std::string> settings;
    for (const TriedChange& change : advice.fits) {
      settings.push_back(change.settings);
      const auto sets = With(c.sets, Words(change.settings));
      EXPECT_EQ(RunStep(testing::LoadShipped(c.job, sets)).report.memory.total, change.needed);
    }
    EXPECT_THAT(settings, Contains(c.taken_out));
  }
}

// A warning, with the same hints, unless failing was asked for.
TEST(MemoryAdvice, WarnsWithWhatWouldFit) {
  const StepReport report = RunStep(testing::LoadShipped(kDdp, kLarge)).report;
  EXPECT_THAT(report.context.warnings,
              AllOf(Contains(StartsWith("does not fit: ")),
                    Contains(AllOf(StartsWith("would fit with "),
                                   HasSubstr("batch.micro_batch_size=1 ")))));
}

TEST(MemoryAdvice, SilentWhenItFits) {
  const StepReport report =
      RunStep(testing::LoadShipped("gpt2_ddp_8xa100", {"memory.fail_on_oom=true"})).report;
  EXPECT_THAT(report.context.warnings, Each(Not(HasSubstr("fit"))));
}

std::string FailureOf(const std::vector<std::string>& sets) {
  try {
    RunStep(testing::LoadShipped(kDdp, With(sets, {"memory.fail_on_oom=true"})));
  } catch (const SimulationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MemoryAdvice, FailsOnRequest) {
  EXPECT_THAT(FailureOf(kLarge),
              AllOf(StartsWith("out of memory: "), HasSubstr("80.0 GiB per GPU"),
                    HasSubstr("\n  at loss.cross_entropy"), HasSubstr("activations "),
                    HasSubstr("\n  would fit with\n    --set ")));
}

// Parameters and optimizer states alone are larger than the limit, however they are cut.
TEST(MemoryAdvice, SaysTheLeastWhenNothingFits) {
  const std::string failure = FailureOf({"memory.limit=2 GiB"});
  EXPECT_THAT(failure, HasSubstr("nothing that was tried makes it fit; the least is with\n    "
                                 "--set "));
  EXPECT_THAT(failure, HasSubstr("2.00 GiB per GPU"));
}

// Megatron warns of the same.
TEST(MemoryAdvice, FlashAttentionHasNothingToRecompute) {
  const std::vector<std::string> selective = {"recompute.granularity=selective"};
  const auto warnings = [&](const std::vector<std::string>& sets) {
    return RunStep(testing::LoadShipped("gpt2_ddp_8xa100", With(selective, sets)))
        .report.context.warnings;
  };
  EXPECT_THAT(warnings({}), Contains(HasSubstr("runs attention again for nothing")));
  EXPECT_THAT(warnings({"recompute.policy=op"}), IsEmpty());
}

// A long step is carried on from two shorter ones: what GPipe keeps grows with every micro-batch,
// what 1F1B keeps does not, and each takes as long as the one before.
TEST(MemoryAdvice, LongStepsAreCarriedOn) {
  for (const std::string strategy : {"fsdp2", "megatron"}) {
    for (const std::string schedule : {"gpipe", "1f1b", "zb1p", "zbv", "none"}) {
      SCOPED_TRACE(strategy + " " + schedule);
      std::vector<std::string> sets = {"plan.strategy=" + strategy,
                                       "batch.gradient_accumulation_steps=64"};
      if (schedule != "none") {
        sets.emplace_back("plan.pipeline_parallel=4");
        sets.push_back("plan.pipeline.schedule=" + schedule);
        sets.emplace_back("plan.pipeline.balance=time");
      }
      const JobSpec job =
          testing::LoadText(
              "{model: gpt2, hardware: a100-80g-dgx, nodes: 2, batch: {sequence_length: "
              "1024}, plan: {strategy: fsdp2}}",
              sets)
              .job;
      const TriedJob exact = TryJob(job), carried_on = TryJob(job, /*most_work=*/1);
      EXPECT_NEAR(ToSeconds(carried_on.step), ToSeconds(exact.step), 0.002 * ToSeconds(exact.step));
      EXPECT_NEAR(ToDouble(carried_on.peak_memory), ToDouble(exact.peak_memory),
                  0.002 * ToDouble(exact.peak_memory));
    }
  }
}

// GPipe keeps every micro-batch, 1F1B as many as there are stages.
TEST(MemoryAdvice, KnowsSchedulesThatKeepLess) {
  const MemoryAdvice advice =
      AdviseMemory(testing::LoadText("{model: gpt2, hardware: a100-80g-dgx, batch: "
                                     "{sequence_length: 1024, gradient_accumulation_steps: 64}, "
                                     "plan: {strategy: megatron, pipeline_parallel: 4, pipeline: "
                                     "{schedule: gpipe}}, memory: {limit: 40 GiB}}",
                                     {})
                       .job);
  std::vector<std::string> settings;
  for (const TriedChange& change : advice.fits) settings.push_back(change.settings);
  EXPECT_THAT(settings, Contains("plan.pipeline.schedule=1f1b"));
}

// No single change is enough, but several are: said as one.
TEST(MemoryAdvice, ChangesTogether) {
  const MemoryAdvice advice =
      AdviseMemory(testing::LoadShipped(kDdp, With(kLarge, {"memory.limit=12 GiB"})).job);
  for (const TriedChange& change : advice.fits) {
    EXPECT_GT(Words(change.settings).size(), 1u) << change.settings;
    EXPECT_LE(change.needed, Bytes{std::int64_t{12} << 30});
  }
  EXPECT_LE(advice.least.needed, Bytes{std::int64_t{12} << 30});
}

}  // namespace
}  // namespace stepsim
