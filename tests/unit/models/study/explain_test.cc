// What an explanation says is what simulations say: its path sums to the step, its gains are those
// of `run --set`, its ceilings bound them.
#include "models/study/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/run_step.h"
#include "models/study/explain_task.h"
#include "sim/base/diagnostics.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JobVariants Variants(const std::string& job, const std::vector<std::string>& sets = {}) {
  return JobVariants([=](const Changes& changes) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), changes.begin(), changes.end());
    return testing::LoadShipped(job, all);
  });
}
Explanation ExplainJob(const std::string& job, const std::vector<std::string>& sets = {},
                       bool wants_actions = false) {
  return Explain(Variants(job, sets), {.most_groups = 10, .wants_actions = wants_actions});
}

// A small job of every strategy, and of every kind of model parallelism.
struct Case {
  std::string job;
  std::vector<std::string> sets;
};
std::vector<Case> SmallJobs() {
  return {
      {"gpt2_ddp_32xa40_25gbe", {}},
      {"lesson_serial", {}},
      {"resnet-50_ddp_8xv100", {}},
      {"gpt2-xl_fsdp1_16xa40_25gbe", {}},
      {"llama-3-8b_fsdp2_16xh100", {}},
      {"llama-2-7b_hsdp_32xa100", {}},
      {"llama-2-7b_zero3_16xa100", {}},
      {"llama-2-7b_zero3_16xa100", {"plan.zero.stage=2", "batch.gradient_accumulation_steps=2"}},
      {"gpt3-6.7b_megatron_32xh100", {}},
      {"mixtral-8x7b_megatron_ep8_64xh100", {}},
      {"llama-3-405b_tp8_pp16_16384xh100",
       {"plan.pipeline_parallel=4", "nodes=64", "model.transformer.layers=30",
        "plan.pipeline.virtual_stages=2", "batch.gradient_accumulation_steps=8"}}};
}

TEST(Explain, CriticalPathSumsToTheStep) {
  for (const Case& c : SmallJobs()) {
    SCOPED_TRACE(c.job);
    const Explanation why = ExplainJob(c.job, c.sets);
    Duration sum{};
    SimTime covered = why.report.window.begin;
    for (const PathRun& run : why.path) {
      EXPECT_EQ(run.begin, covered) << "no gap between its runs";
      covered = run.end;
      sum += run.length();
    }
    EXPECT_EQ(sum, why.report.account().step);
    Duration shares{};
    for (const PathShare& share : SharesOf(why.path)) shares += share.length;
    EXPECT_EQ(shares, sum);
  }
}

TEST(Explain, TotalsAreThoseOfRun) {
  for (const Case& c : SmallJobs()) {
    SCOPED_TRACE(c.job);
    const Explanation why = ExplainJob(c.job, c.sets);
    const StepReport run = RunStep(testing::LoadShipped(c.job, c.sets)).report;
    EXPECT_EQ(why.report.account(), run.account());
    ASSERT_EQ(why.report.collectives.size(), run.collectives.size());
    for (std::size_t i = 0; i < run.collectives.size(); ++i) {
      EXPECT_EQ(why.report.collectives[i].cause, run.collectives[i].cause);
      EXPECT_EQ(why.report.collectives[i].cause_kind, run.collectives[i].cause_kind);
    }
  }
}

TEST(Explain, CeilingsAreNoLongerThanTheStep) {
  for (const Case& c : SmallJobs()) {
    SCOPED_TRACE(c.job);
    const Explanation why = ExplainJob(c.job, c.sets);
    const Duration step = why.report.account().step;
    for (const Ceiling& ceiling : why.ceilings) EXPECT_LE(ceiling.step, step) << ceiling.what;
    for (const CollectiveGroup& group : why.groups) {
      if (group.saved) {
        EXPECT_LE(*group.saved, step) << group.name;
      }
    }
    EXPECT_LE(why.diagnosis.gain, 1);
  }
}

// Every call is in one group, with its time; the one that speaks for it is one of them.
TEST(Explain, GroupsHoldEveryCollectiveOnce) {
  for (const Case& c : SmallJobs()) {
    SCOPED_TRACE(c.job);
    const Explanation why = ExplainJob(c.job, c.sets);
    std::size_t calls = 0;
    Duration exposed{}, all{};
    for (const CollectiveGroup& group : why.groups) {
      calls += group.calls.size();
      exposed += group.exposed;
      EXPECT_THAT(group.calls, ::testing::Contains(group.largest));
    }
    for (const CollectiveReport& call : why.report.collectives) all += call.exposed_transfer();
    EXPECT_EQ(calls, why.report.collectives.size());
    EXPECT_EQ(exposed, all);
  }
}

// The layers of a network are one line.
TEST(Explain, GroupsLayers) {
  const Explanation why = ExplainJob("llama-3-8b_fsdp2_16xh100");
  EXPECT_LT(why.groups.size() * 4, why.report.collectives.size());
}

// Numbers that only rise or fall are told in their order, others from the least to the largest.
TEST(Explain, NamesRanges) {
  StepReport report;
  const auto add = [&](const char* name) {
    report.collectives.emplace_back();
    report.collectives.back().name = name;
  };
  for (const char* name : {"gather layers.10", "gather layers.9", "gather layers.8"}) add(name);
  for (const char* name : {"reduce 2/9", "reduce 10/9", "reduce 1/9"}) add(name);
  const std::vector<CollectiveGroup> groups = GroupCollectives(report);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "gather layers.10..8");
  EXPECT_EQ(groups[1].name, "reduce 1..10/9");
}

// The claim of each action is what `run` says with the same --set.
TEST(Explain, ActionsAreWhatRunSays) {
  for (const char* job : {"gpt2_ddp_32xa40_25gbe", "llama-3-8b_fsdp2_16xh100",
                          "gpt3-6.7b_megatron_32xh100", "llama-2-7b_zero3_16xa100"}) {
    SCOPED_TRACE(job);
    const Explanation why = ExplainJob(job, {}, /*wants_actions=*/true);
    for (const TriedAction& action : why.actions.gains) {
      const StepReport run = RunStep(testing::LoadShipped(job, action.changes)).report;
      EXPECT_EQ(run.account().step, action.report.account().step) << action.name;
      EXPECT_EQ(run.memory.total, action.report.memory.total) << action.name;
      EXPECT_EQ(MemoryWarning(run).empty(), action.fits) << action.name;
      if (action.is_per_token) continue;
      EXPECT_NEAR(action.gain, 1 - run.step_time_s() / why.report.step_time_s(), 1e-9);
    }
  }
}

// Those that do not fit come last; among the others the largest gain first.
TEST(Explain, ActionsAreRanked) {
  const Explanation why = ExplainJob("gpt2-xl_fsdp1_16xa40_25gbe", {}, /*wants_actions=*/true);
  const std::vector<TriedAction>& gains = why.actions.gains;
  ASSERT_GT(gains.size(), 2u);
  for (std::size_t i = 1; i < gains.size(); ++i) {
    EXPECT_GE(gains[i - 1].fits, gains[i].fits);
    if (gains[i - 1].fits == gains[i].fits) {
      EXPECT_GE(gains[i - 1].gain, gains[i].gain);
    }
  }
  for (const TriedAction& action : gains) EXPECT_GE(action.gain, kLeastGain);
}

// 25 Gb/s Ethernet under DDP: the seed question's answer is the gradient reduce.
TEST(Explain, NamesTheGradientReduce) {
  const Explanation why = ExplainJob("gpt2_ddp_32xa40_25gbe");
  EXPECT_EQ(why.diagnosis.stall, "gradient_reduce");
  EXPECT_THAT(why.diagnosis.text, StartsWith("the gradient reduce stalls the step"));
}

TEST(Explain, NamesTheHost) {
  // Launches that take a millisecond each: no GPU can be kept busy so.
  const Explanation why = ExplainJob("gpt2_ddp_8xa100", {"host.launch=1 ms"});
  EXPECT_EQ(why.diagnosis.stall, "host");
}

TEST(Explain, NamesTheBubble) {
  // (p-1)/(m+p-1) = 3/5 of the step is bubble with two micro-batches on four stages.
  const Explanation why =
      ExplainJob("llama-3-405b_tp8_pp16_16384xh100",
                 {"plan.pipeline_parallel=4", "nodes=64", "model.transformer.layers=30",
                  "plan.pipeline.virtual_stages=1", "plan.pipeline.schedule=1f1b",
                  "batch.gradient_accumulation_steps=2"});
  EXPECT_EQ(why.diagnosis.stall, "bubble");
}

// One GPU: there is nothing to hide, and the answer says so.
TEST(Explain, NothingStallsOneGpu) {
  const Explanation why = ExplainJob("gpt2_ddp_8xa100", {"nodes=1", "gpus_per_node=1"});
  EXPECT_EQ(why.diagnosis.stall, "nothing");
  EXPECT_THAT(why.diagnosis.text, HasSubstr("compute-bound"));
}

// The questions of three users whose time was not where they looked: a ring of 24 CTAs or
// symmetric memory (UniRL#467), an own stream for the outer reduction (Megatron-LM#6973), a
// schedule without bubble (zero-bubble-pipeline-parallelism#24). The link is so fast, or the work
// so long, that what can be won is bounded by the ceiling: no action may claim more.
TEST(Explain, NoActionOfCommunicationWinsMoreThanItsCeiling) {
  const Explanation why =
      ExplainJob("gpt2_ddp_8xa100", {"batch.gradient_accumulation_steps=64"}, true);
  const Duration step = why.report.account().step;
  EXPECT_EQ(why.diagnosis.stall, "nothing");
  EXPECT_LT(GainOf(why.ceilings, "communication", step), kLeastStall);
  for (const TriedAction& action : why.actions.gains) {
    EXPECT_THAT(action.name,
                ::testing::Not(AnyOf("bucket size", "reduce in bf16", "CTAs of collectives",
                                     "links in the node twice as fast")));
  }
  EXPECT_GT(why.actions.pointless, 0u) << "they are not even tried";
}

// zero-bubble-pipeline-parallelism#24: 1F1B on four stages with 64 micro-batches has a bubble of
// 3/67 = 4.5%. No schedule can win more, and none is said to.
TEST(Explain, NoScheduleWinsMoreThanTheBubble) {
  const Explanation why =
      ExplainJob("llama-3-405b_tp8_pp16_16384xh100",
                 {"plan.pipeline_parallel=4", "nodes=64", "model.transformer.layers=14",
                  "plan.pipeline.virtual_stages=1", "plan.pipeline.schedule=1f1b",
                  "batch.gradient_accumulation_steps=64"},
                 true);
  const Duration step = why.report.account().step;
  EXPECT_LT(ToSeconds(why.report.account().bubble) / ToSeconds(step), 0.06);
  for (const TriedAction& action : why.actions.gains) {
    if (action.name != "another schedule") continue;
    EXPECT_LE(action.gain, GainOf(why.ceilings, "bubble", step) + kLeastGain);
  }
}

// Megatron-LM#6973: the outer reduction of hybrid sharding on its own stream won 0.06%. Where it is
// hidden, a communicator of its own wins nothing, and is not among the next actions.
TEST(Explain, HiddenReductionsNeedNoCommunicatorOfTheirOwn) {
  const Explanation why = ExplainJob("llama-3-405b_hsdp_16384xh100", {}, true);
  for (const TriedAction& action : why.actions.gains) {
    EXPECT_NE(action.name, "reductions on a communicator of their own");
  }
  EXPECT_GT(why.actions.useless, 0u) << "it was tried";
}

TEST(ExplainTask, TellsOfOneCollective) {
  const Explanation why = ExplainJob("gpt2_ddp_32xa40_25gbe");
  const CollectiveReport& c = *why.groups.front().largest;
  const ExplainedTask task =
      ExplainTask(why, testing::LoadShipped("gpt2_ddp_32xa40_25gbe").job, c.name);
  ASSERT_NE(task.collective, nullptr);
  EXPECT_EQ(task.task, c.task);
  EXPECT_EQ(task.ready, c.ready);
  EXPECT_EQ(task.end, c.end);
  ASSERT_FALSE(task.causes.empty());
  // What set its start ended when it started.
  EXPECT_EQ(task.causes.front().end, task.start);
  EXPECT_FALSE(task.waiting.empty());
  ASSERT_TRUE(task.saved.has_value());
  EXPECT_GT(*task.saved, Duration::zero());
}

TEST(ExplainTask, SaysWhatWasMeant) {
  const Explanation why = ExplainJob("gpt2_ddp_32xa40_25gbe");
  const std::string name = why.groups.front().largest->name;
  const JobSpec job = testing::LoadShipped("gpt2_ddp_32xa40_25gbe").job;
  try {
    ExplainTask(why, job, name + "x");
    ADD_FAILURE() << "there is no such task";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean '"));
  }
}

}  // namespace
}  // namespace stepsim
