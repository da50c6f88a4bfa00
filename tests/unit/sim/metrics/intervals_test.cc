#include "sim/metrics/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/workloads.h"

namespace stepsim {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

Interval Make(int begin, int end) { return {SimTime(Duration(begin)), SimTime(Duration(end))}; }

std::vector<Interval> Make(const Pairs& pairs) {
  std::vector<Interval> intervals;
  for (const auto& [begin, end] : pairs) intervals.push_back(Make(begin, end));
  return intervals;
}

Pairs ToPairs(const std::vector<Interval>& intervals) {
  Pairs pairs;
  for (const Interval& i : intervals) {
    pairs.emplace_back(i.begin.time_since_epoch().count(), i.end.time_since_epoch().count());
  }
  return pairs;
}

TEST(UnionTest, SortsMergesAndDropsTheEmpty) {
  EXPECT_EQ(ToPairs(Union({})), Pairs());
  EXPECT_EQ(ToPairs(Union(Make({{5, 7}, {1, 3}}))), (Pairs{{1, 3}, {5, 7}}));
  EXPECT_EQ(ToPairs(Union(Make({{1, 4}, {2, 6}}))), (Pairs{{1, 6}})) << "overlap";
  EXPECT_EQ(ToPairs(Union(Make({{1, 4}, {4, 6}}))), (Pairs{{1, 6}})) << "touch";
  EXPECT_EQ(ToPairs(Union(Make({{1, 9}, {2, 3}, {4, 5}}))), (Pairs{{1, 9}})) << "nested";
  EXPECT_EQ(ToPairs(Union(Make({{3, 3}, {8, 7}}))), Pairs()) << "empty and turned round";
}

TEST(SubtractTest, LeavesWhatNoHoleCovers) {
  EXPECT_EQ(ToPairs(Subtract(Make(2, 8), {})), (Pairs{{2, 8}}));
  EXPECT_EQ(ToPairs(Subtract(Make(2, 8), Make({{0, 2}, {8, 9}}))), (Pairs{{2, 8}})) << "outside";
  EXPECT_EQ(ToPairs(Subtract(Make(2, 8), Make({{0, 3}, {4, 5}, {7, 9}}))), (Pairs{{3, 4}, {5, 7}}));
  EXPECT_EQ(ToPairs(Subtract(Make(2, 8), Make({{2, 8}}))), Pairs());
  EXPECT_EQ(ToPairs(Subtract(Make(2, 8), Make({{0, 9}}))), Pairs());
  EXPECT_EQ(ToPairs(Subtract(Make(2, 2), Make({{0, 1}}))), Pairs()) << "empty";
}

TEST(ClipTest, IsTheCommonPart) {
  EXPECT_EQ(ToPairs({Clip(Make(2, 8), Make(4, 6))}), (Pairs{{4, 6}}));
  EXPECT_EQ(ToPairs({Clip(Make(2, 8), Make(0, 3))}), (Pairs{{2, 3}}));
  const Interval apart = Clip(Make(2, 3), Make(5, 6));
  EXPECT_GE(apart.begin, apart.end);
}

TEST(MeasureTest, SumsWhatIsNotEmpty) {
  EXPECT_EQ(Measure({}), Duration(0));
  EXPECT_EQ(Measure(Make({{1, 4}, {6, 7}, {9, 8}})), Duration(4));
}

// Against one flag per moment, on random intervals over 60 moments.
TEST(IntervalsTest, AgreeWithCountingMoments) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Interval> intervals;
    std::vector<bool> covered(60, false);
    for (std::int64_t i = random.Between(0, 8); i > 0; --i) {
      const int begin = static_cast<int>(random.Between(0, 59));
      const int end = static_cast<int>(random.Between(begin, 60));
      intervals.push_back(Make(begin, end));
      for (int t = begin; t < end; ++t) covered[static_cast<std::size_t>(t)] = true;
    }
    const auto in_union = std::count(covered.begin(), covered.end(), true);
    const std::vector<Interval> merged = Union(intervals);
    EXPECT_EQ(Measure(merged), Duration(in_union));
    for (std::size_t i = 1; i < merged.size(); ++i) EXPECT_LT(merged[i - 1].end, merged[i].begin);
    EXPECT_EQ(Measure(Subtract(Make(10, 50), merged)),
              Duration(std::count(covered.begin() + 10, covered.begin() + 50, false)));
  }
}

}  // namespace
}  // namespace stepsim
