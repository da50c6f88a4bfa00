// The best of all that was simulated is what `run --set` says; nothing depends on threads.
#include "models/study/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "models/spec/remembering_source.h"
#include "models/study/try_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr const char* kJob = "gpt2_ddp_32xa40_25gbe";

// By hand: 10.05 is within 1% of 10, 10.2 is not; what was not possible is no part of it.
TEST(Plateau, IsWhatLiesWithinOnePercentOfTheBest) {
  const auto plateau = FindPlateau({10.2, 10.0, std::nullopt, 10.05, 12.0});
  ASSERT_TRUE(plateau);
  EXPECT_EQ(plateau->best, 1u);
  EXPECT_EQ(plateau->values, (std::vector<std::size_t>{1, 3}));
  EXPECT_FALSE(FindPlateau({std::nullopt}));
}

// By hand: (13, 60) is beaten by (12, 40), the second (10, 80) by nobody but is there already.
TEST(Pareto, HasNoPointThatAnotherBeats) {
  const std::vector<TimeAndMemory> points = {{12, 40}, {10, 80}, {13, 60}, {10, 80}, {20, 10}};
  EXPECT_EQ(FindPareto(points), (std::vector<std::size_t>{1, 0, 4}));
}

ForEachIndex OnThreads(std::size_t threads) {
  return [threads](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> pool;
    for (std::size_t t = 0; t < threads; ++t) {
      pool.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(i);
      });
    }
    for (std::thread& thread : pool) thread.join();
  };
}

class TuneTest : public ::testing::Test {
 protected:
  JobVariants Variants(const std::string& job = kJob) {
    return JobVariants(
        [this, job](const Changes& changes) { return LoadJob(job, changes, source_); });
  }
  static TuneOptions Turn(std::initializer_list<std::string_view> names) {
    TuneOptions options;
    for (const std::string_view name : names) options.knobs.push_back(FindKnob(name));
    return options;
  }

 private:
  DirectoryConfigSource disk_ = testing::ShippedConfigs();
  RememberingSource source_{disk_};
};

TEST_F(TuneTest, WinnerIsTheFastestThatFitsAndRunsAsSaid) {
  const JobVariants variants = Variants();
  const Tuning tuned = Tune(variants, Turn({"bucket", "sharding", "recompute"}));
  const TunePoint& winner = tuned.points[tuned.winner];
  EXPECT_LE(winner.seconds, tuned.points.front().seconds);
  EXPECT_TRUE(winner.fits);
  for (const TunePoint& point : tuned.points) {
    // What is taken back brings 0.2% at most.
    if (point.fits) {
      EXPECT_LE(winner.seconds, point.seconds * 1.0021) << point.label;
    }
    EXPECT_EQ(point.samples, tuned.points.front().samples) << point.label;
    const StepReport again = TryStep(testing::LoadShipped(kJob, point.changes));
    EXPECT_EQ(again.account().step, point.step) << point.label;
    EXPECT_EQ(again.memory.total, point.memory) << point.label;
  }
}

TEST_F(TuneTest, SameOnAnyNumberOfThreads) {
  const JobVariants variants = Variants();
  TuneOptions options = Turn({"bucket", "micro_batch", "sharding"});
  const Tuning one = Tune(variants, options);
  for (const std::size_t threads : {2, 4}) {
    options.for_each = OnThreads(threads);
    const Tuning many = Tune(variants, options);
    EXPECT_EQ(many.winner, one.winner);
    EXPECT_EQ(many.pareto, one.pareto);
    EXPECT_EQ(many.refused, one.refused);
    ASSERT_EQ(many.points.size(), one.points.size());
    for (std::size_t i = 0; i < one.points.size(); ++i) {
      EXPECT_EQ(many.points[i].label, one.points[i].label);
      EXPECT_EQ(many.points[i].changes, one.points[i].changes);
      EXPECT_EQ(many.points[i].step, one.points[i].step);
    }
  }
}

// Less memory than the job takes as it is: the winner is slower, and fits.
TEST_F(TuneTest, KeepsTheBudget) {
  const JobVariants variants = Variants();
  TuneOptions options = Turn({"micro_batch", "recompute"});
  const Bytes now = TryStep(variants.base()).memory.total;
  options.memory = Bytes{now.value * 3 / 4};
  const Tuning tuned = Tune(variants, options);
  EXPECT_FALSE(tuned.points.front().fits);
  EXPECT_TRUE(tuned.points[tuned.winner].fits);
  EXPECT_LE(tuned.points[tuned.winner].memory, options.memory);
}

TEST_F(TuneTest, EndsWhereItMustAndSaysSo) {
  const JobVariants variants = Variants();
  TuneOptions options = Turn({"bucket"});
  options.most_points = 4;
  const Tuning few = Tune(variants, options);
  EXPECT_GT(few.skipped, 0u);
  EXPECT_LE(few.points.size(), 4u);
  options.most_points = 0;
  options.is_over = [] { return true; };
  const Tuning none = Tune(variants, options);
  EXPECT_EQ(none.points.size(), 1u);
  EXPECT_EQ(none.winner, 0u);
  EXPECT_GT(none.skipped, 0u);
}

// DDP of fp32 parameters reduces in fp32: FSDP2 instead of it has to as well.
TEST_F(TuneTest, ShardingLeavesReductionsAsWideAsTheyAre) {
  const JobVariants variants = Variants();
  for (const KnobValue& value : FindKnob("sharding")->values(variants.base().job, {})) {
    const JobSpec job = variants.With(value.changes).job;
    if (job.plan.strategy == "fsdp2") {
      EXPECT_EQ(job.plan.fsdp2.reduce_dtype, DType::kFp32);
    }
  }
}

// Values that the rules refuse are passed over, but each knob has some that they admit, and no
// value has a key that does not exist.
TEST_F(TuneTest, KnobsHaveValuesThatJobsAdmit) {
  std::set<std::string_view> admitted;
  for (const char* name : {kJob, "llama-2-7b_zero3_16xa100", "gpt3-6.7b_megatron_32xh100",
                           "llama-3-8b_fsdp2_16xh100", "llama-3-405b_tp8_pp16_16384xh100"}) {
    const JobVariants variants = Variants(name);
    for (const Knob& knob : Knobs()) {
      if (!knob.applies(variants.base().job)) continue;
      for (const KnobValue& value : knob.values(variants.base().job, {})) {
        try {
          variants.With(value.changes);
          admitted.insert(knob.name);
        } catch (const ConfigError& error) {
          EXPECT_EQ(std::string(error.what()).find("unknown"), std::string::npos) << error.what();
        }
      }
    }
  }
  for (const Knob& knob : Knobs()) {
    if (knob.name != "sync") {
      EXPECT_EQ(admitted.count(knob.name), 1u) << knob.name;
    }
  }
}

}  // namespace
}  // namespace stepsim
