#include "tools/calibrate/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace stepsim::measure {
namespace {

using testing::HasSubstr;

// A device whose every repetition takes as long as its task says, on a clock of its own.
class FakeBackend : public Backend {
 public:
  double now = 0;
  double seconds_per_call = 1e-3;
  std::string disturbance;
  std::vector<std::string> taken;  // tasks, by their description

  DeviceFacts Facts() const override { return {}; }
  DeviceLimits Limits() const override { return {}; }
  std::string Disturbance() override { return disturbance; }
  std::unique_ptr<Prepared> Prepare(const MeasureTask& task) override {
    if (Describe(task) == refused) throw CannotMeasure("too large");
    if (Describe(task) == broken) throw MeasureError("cudaMalloc returned 2");
    taken.push_back(Describe(task));
    return std::make_unique<Ready>(*this);
  }

  std::string refused, broken;
  int calls = 0;  // of Take, for the spread: 1, 2, 3, ... times the usual

 private:
  class Ready : public Prepared {
   public:
    explicit Ready(FakeBackend& backend) : backend_(backend) {}
    Sample Take(int inner) override {
      backend_.now += backend_.seconds_per_call * inner;
      return {backend_.seconds_per_call};
    }
    std::map<std::string, std::string> Facts() const override { return {{"how", "faked"}}; }

   private:
    FakeBackend& backend_;
  };
};

class Collector : public RunListener {
 public:
  std::vector<Measured> measured;
  std::vector<std::string> refused;
  void OnMeasured(const Measured& m) override { measured.push_back(m); }
  void OnRefused(const MeasureTask& task, const std::string& reason) override {
    refused.push_back(Describe(task) + ": " + reason);
  }
};

// Another rank that is slower, or wants to stop.
class TwoPeers : public Peers {
 public:
  TwoPeers() { ranks_ = 2; }
  double other = 0;
  double Max(double value) override { return std::max(value, other); }
  std::string FromFirst(const std::string& text) override { return text; }
};

std::vector<PlannedTask> Gemms(int count) {
  std::vector<PlannedTask> plan;
  for (int i = 1; i <= count; ++i) plan.push_back({GemmTask{i, i, i, "bf16"}, 0});
  return plan;
}

struct Rig {
  FakeBackend backend;
  AlonePeers alone;
  Collector collector;
  RunOptions options;
  Rig() {
    options.seconds = [this] { return backend.now; };
    options.is_interrupted = [] { return false; };
  }
  RunOutcome Of(const std::vector<PlannedTask>& plan, Peers* peers = nullptr) {
    return RunPlan(plan, backend, peers != nullptr ? *peers : alone, options, collector);
  }
};

TEST(RunPlan, MeasuresEverything) {
  Rig run;
  const auto plan = Gemms(3);
  const RunOutcome outcome = run.Of(plan);
  EXPECT_EQ(outcome.end, RunEnd::kComplete);
  EXPECT_EQ(outcome.measured, 3U);
  EXPECT_EQ(LeftOutText(plan, outcome), "");
  ASSERT_EQ(run.collector.measured.size(), 3U);
  const Measured& first = run.collector.measured[0];
  EXPECT_DOUBLE_EQ(first.columns[0].median, 1e-3);
  EXPECT_GE(first.repeats, 5);
  EXPECT_EQ(first.facts.at("how"), "faked");
}

TEST(RunPlan, BudgetEndsItAndSaysWhatIsMissing) {
  Rig run;
  run.options.budget_s = 1;
  run.backend.seconds_per_call = 10e-3;  // so that 100 tasks of 10 calls cannot be done
  const auto plan = Gemms(100);
  const RunOutcome outcome = run.Of(plan);
  EXPECT_EQ(outcome.end, RunEnd::kBudget);
  EXPECT_LE(run.backend.now, 1);
  EXPECT_GT(outcome.measured, 0U);
  EXPECT_LT(outcome.measured, 100U);
  const std::string text = LeftOutText(plan, outcome);
  EXPECT_THAT(text, HasSubstr("The budget is spent"));
  EXPECT_THAT(text, HasSubstr(std::to_string(100 - outcome.measured) + " of 100"));
  EXPECT_THAT(text, HasSubstr(Describe(plan[outcome.next].task)));
}

TEST(RunPlan, InterruptKeepsWhatIsDone) {
  Rig run;
  run.options.is_interrupted = [&run] { return run.collector.measured.size() == 2; };
  const auto plan = Gemms(5);
  const RunOutcome outcome = run.Of(plan);
  EXPECT_EQ(outcome.end, RunEnd::kInterrupted);
  EXPECT_EQ(run.collector.measured.size(), 2U);
  EXPECT_THAT(LeftOutText(plan, outcome), HasSubstr("Interrupted: 3 of 5"));
}

TEST(RunPlan, AnotherRanksInterruptCounts) {
  Rig run;
  TwoPeers peers;
  peers.other = static_cast<double>(RunEnd::kInterrupted);
  EXPECT_EQ(run.Of(Gemms(2), &peers).end, RunEnd::kInterrupted);
  EXPECT_TRUE(run.collector.measured.empty());
}

TEST(RunPlan, RefusedTasksAreNamedAndTheRestGoesOn) {
  Rig run;
  run.backend.refused = "gemm 2x2x2 bf16";
  const RunOutcome outcome = run.Of(Gemms(3));
  EXPECT_EQ(outcome.refused, 1U);
  EXPECT_EQ(outcome.measured, 2U);
  EXPECT_THAT(run.collector.refused, testing::ElementsAre("gemm 2x2x2 bf16: too large"));
}

TEST(RunPlan, FailuresEndIt) {
  Rig run;
  run.backend.broken = "gemm 2x2x2 bf16";
  EXPECT_THROW(run.Of(Gemms(3)), MeasureError);
  EXPECT_EQ(run.collector.measured.size(), 1U);  // is in the file already
}

TEST(RunPlan, ShortWorkIsRepeatedWithinASample) {
  Rig run;
  run.backend.seconds_per_call = 1e-6;
  run.Of(Gemms(1));
  // 200 us per sample at 1 us: 200 repetitions of it; two calls before, to find that out.
  const double samples = run.collector.measured[0].repeats;
  EXPECT_GE(run.backend.now, 200e-6 * samples);
}

TEST(RunPlan, SlowestRankCountsForCollectivesOnly) {
  Rig run;
  TwoPeers peers;
  const std::vector<PlannedTask> plan = {{CollectiveTask{CollectiveKind::kAllReduce, 1024}, 0}};
  // The other rank never wants to stop (0) but is slower once a collective is timed.
  class Slower : public TwoPeers {
   public:
    double Max(double value) override { return value > 0 && value < 1 ? value * 3 : value; }
  } slower;
  run.Of(plan, &slower);
  EXPECT_DOUBLE_EQ(run.collector.measured.at(0).columns[0].median, 3e-3);
  run.Of(Gemms(1), &slower);
  EXPECT_DOUBLE_EQ(run.collector.measured.at(1).columns[0].median, 1e-3);
}

TEST(RunPlan, DisturbancesAreNoted) {
  Rig run;
  run.backend.disturbance = "throttled: power cap";
  run.Of(Gemms(1));
  EXPECT_EQ(run.collector.measured.at(0).note, "throttled: power cap");
}

}  // namespace
}  // namespace stepsim::measure
