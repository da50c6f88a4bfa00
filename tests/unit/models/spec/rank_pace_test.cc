#include "models/spec/rank_pace.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stepsim {
namespace {

TEST(RankPace, WithoutDifferencesIsNormal) {
  EXPECT_EQ(RankPace().At(0, 0), kNormalPace);
  EXPECT_EQ(RankPace(3, 1, 0, 7).At(1, 2), kNormalPace);
}

TEST(RankPace, OfAStraggler) {
  JobSpec job;
  job.simulate.stragglers = {"3:1.2", "5:0.5", "3:2"};
  EXPECT_EQ(RankPaceOf(job, 0).At(0, 0), 1000);
  EXPECT_EQ(RankPaceOf(job, 3).At(0, 0), 2400);
  EXPECT_EQ(RankPaceOf(job, 5).At(9, 9), 500);
}

// Twelve uniform numbers have the mean and the variance of a normal one: of 40,000 draws the mean
// is within 4 standard errors (jitter / 200), the deviation within 2%.
TEST(RankPace, JitterHasItsMeanAndDeviation) {
  constexpr double kJitter = 0.1;
  double sum = 0, squares = 0;
  constexpr int kRanks = 200, kSteps = 200;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int step = 0; step < kSteps; ++step) {
      const double pace = RankPace(rank, 1, kJitter, 1).At(step, 0) / 1000.0;
      sum += pace;
      squares += pace * pace;
    }
  }
  const double mean = sum / (kRanks * kSteps);
  EXPECT_NEAR(mean, 1, 4 * kJitter / 200);
  EXPECT_NEAR(std::sqrt(squares / (kRanks * kSteps) - mean * mean), kJitter, 0.02 * kJitter);
}

// Neighbouring ranks, steps and micro-steps have nothing in common: correlations of 10,000 draws
// are within 4 / sqrt(10,000).
TEST(RankPace, DrawsAreIndependent) {
  const auto correlation = [](auto&& first, auto&& second) {
    double sum = 0;
    for (int i = 0; i < 10'000; ++i) sum += (first(i) - 1000.0) * (second(i) - 1000.0);
    return sum / 10'000 / (100.0 * 100.0);
  };
  const auto pace = [](int rank, int step, int microstep) {
    return RankPace(rank, 1, 0.1, 3).At(step, microstep);
  };
  const auto base = [&](int i) { return pace(i, 0, 0); };
  EXPECT_NEAR(correlation(base, [&](int i) { return pace(i + 1, 0, 0); }), 0, 0.04);
  EXPECT_NEAR(correlation(base, [&](int i) { return pace(i, 1, 0); }), 0, 0.04);
  EXPECT_NEAR(correlation(base, [&](int i) { return pace(i, 0, 1); }), 0, 0.04);
  EXPECT_NEAR(correlation(base, [&](int i) { return RankPace(i, 1, 0.1, 4).At(0, 0); }), 0, 0.04);
}

}  // namespace
}  // namespace stepsim
