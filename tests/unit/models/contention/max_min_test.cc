#include "models/contention/max_min.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace stepsim {
namespace {

using ::testing::ElementsAre;

std::vector<double> Shares(double capacity, std::vector<double> demands) {
  ShareMaxMin(capacity, demands);
  return demands;
}

TEST(MaxMin, WhatFitsIsLeftAlone) {
  EXPECT_THAT(Shares(10, {1, 4, 5}), ElementsAre(1, 4, 5));
  EXPECT_THAT(Shares(0, {}), ElementsAre());
}

// By hand: everybody gets 8/3; the first needs 1 only, so two share 7.
TEST(MaxMin, TheModestGetTheirDemandAndTheRestIsSplitEvenly) {
  EXPECT_THAT(Shares(8, {1, 4, 5}), ElementsAre(1, 3.5, 3.5));
  EXPECT_THAT(Shares(9, {3, 9, 9}), ElementsAre(3, 3, 3));
  EXPECT_THAT(Shares(10, {2, 3, 9}), ElementsAre(2, 3, 5));
  EXPECT_THAT(Shares(1, {5}), ElementsAre(1));
  EXPECT_THAT(Shares(0, {5, 0}), ElementsAre(0, 0));
}

// Nothing is wasted and nobody gets more than asked for.
TEST(MaxMin, UsesAllOfTheCapacity) {
  const std::vector<double> demands = {0.1, 0.7, 0.2, 0.9, 0.33};
  for (double capacity = 0.1; capacity < 2.2; capacity += 0.1) {
    const std::vector<double> shares = Shares(capacity, demands);
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT_LE(shares[i], demands[i]);
      sum += shares[i];
    }
    EXPECT_NEAR(sum, capacity, 1e-12);
  }
}

}  // namespace
}  // namespace stepsim
