// Where the time of a rank went, on hand-made steps.
#include "sim/metrics/accounting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "sim/base/check.h"
#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;
using testing::HasSubstr;
using testing::ThrowsMessage;

SimTime At(Duration time) { return kStepBegin + time; }

class HalfSpeed : public Interference {
 public:
  void Rates(RankId, std::span<const RunningTask>, std::span<double> rates) override {
    std::fill(rates.begin(), rates.end(), 0.5);
  }
};

//   compute | a 0-4 | b 4-10 |          | op 13-15 |
//   nccl            | reduce 4-13       |
//   host    | launch 0-20                                     |
class AccountTest : public testing::Test {
 protected:
  AccountTest() {
    GraphSketch s;
    const StreamId x = s.Stream(0, "x");
    const TaskId a = s.Compute(x, 4us, "a");
    s.Compute(x, 6us, "b");
    const TaskId r = s.Transfer(s.Stream(0, "n"), 9us, Site::kGradientReduce, "reduce", {a});
    s.Compute(x, 2us, "op", {r});
    s.Host(s.Stream(0, "host"), 20us, "launch");
    built_ = s.Build();
    timeline_ = Simulate(built_.graph, built_.costs);
  }

  RankAccount Account(Duration begin, Duration end) {
    return AccountRank(built_.graph, built_.costs, timeline_, RankId{0}, {At(begin), At(end)});
  }

  Sketched built_;
  Timeline timeline_;
};

TEST_F(AccountTest, OfTheWholeStep) {
  const RankAccount account = Account(0us, 20us);
  EXPECT_EQ(account.step, Duration(20us));
  EXPECT_EQ(account.compute, Duration(12us));
  EXPECT_EQ(account.contention, Duration(0));
  EXPECT_EQ(account.exposed[static_cast<std::size_t>(Site::kGradientReduce)], Duration(3us));
  EXPECT_EQ(account.exposed_total(), Duration(3us));
  EXPECT_EQ(account.host, Duration(5us));
  EXPECT_EQ(account.peer_wait + account.bubble + account.idle, Duration(0));
  EXPECT_EQ(account.communication, Duration(9us));
  EXPECT_EQ(account.profiler_exposed, Duration(3us));
  EXPECT_DOUBLE_EQ(account.overlap_fraction(), 1 - 3.0 / 9.0);
}

// 2-12: 8 us of compute, of the transfer 4-12 = 8 us, 2 of them exposed.
TEST_F(AccountTest, OfAWindow) {
  const RankAccount account = Account(2us, 12us);
  EXPECT_EQ(account.step, Duration(10us));
  EXPECT_EQ(account.compute, Duration(8us));
  EXPECT_EQ(account.exposed_total(), Duration(2us));
  EXPECT_EQ(account.communication, Duration(8us));
  EXPECT_EQ(account.profiler_exposed, Duration(2us));
}

TEST_F(AccountTest, OfAnEmptyWindow) {
  const RankAccount account = Account(5us, 5us);
  EXPECT_EQ(account.step, Duration(0));
  EXPECT_EQ(account.overlap_fraction(), 0) << "no communication";
}

TEST_F(AccountTest, WindowsAddUp) {
  const RankAccount whole = Account(0us, 20us);
  Duration compute{}, exposed{}, communication{};
  for (int begin = 0; begin < 20; ++begin) {
    const RankAccount part = Account(begin * 1us, (begin + 1) * 1us);
    compute += part.compute;
    exposed += part.exposed_total();
    communication += part.communication;
  }
  EXPECT_EQ(compute, whole.compute);
  EXPECT_EQ(exposed, whole.exposed_total());
  EXPECT_EQ(communication, whole.communication);
}

TEST_F(AccountTest, AWindowMustLieWithinTheStep) {
  const auto is_refused = ThrowsMessage<InternalError>(HasSubstr("must lie within the timeline"));
  EXPECT_THAT([&] { Account(0us, 21us); }, is_refused);
  EXPECT_THAT([&] { Account(5us, 4us); }, is_refused);
}

TEST_F(AccountTest, ObservedOnceForAllRanks) {
  const std::vector<RankActivity> activities = ObserveRanks(built_.graph, timeline_);
  ASSERT_EQ(activities.size(), 1u);
  const RankAccount account =
      AccountWindow(built_.graph, built_.costs, timeline_, activities[0], {At(0us), At(20us)});
  EXPECT_EQ(account.compute, Duration(12us));
  EXPECT_EQ(account.profiler_exposed, Duration(3us));
}

// A kernel of 10 us beside a transfer of 4 us at half speed: 14 us, 4 of them the price of company.
class ContentionTest : public testing::Test {
 protected:
  ContentionTest() {
    GraphSketch s;
    s.Compute(s.Stream(0, "x"), 10us, "a");
    s.Transfer(s.Stream(0, "n"), 4us, Site::kGradientReduce, "r");
    built_ = s.Build();
    HalfSpeed half;
    timeline_ = Simulate(built_.graph, built_.costs, &half);
  }

  RankAccount Account(Duration begin, Duration end) {
    return AccountRank(built_.graph, built_.costs, timeline_, RankId{0}, {At(begin), At(end)});
  }

  Sketched built_;
  Timeline timeline_;
};

TEST_F(ContentionTest, IsSplitOffCompute) {
  const RankAccount account = Account(0us, 14us);
  EXPECT_EQ(account.step, Duration(14us));
  EXPECT_EQ(account.compute, Duration(10us));
  EXPECT_EQ(account.contention, Duration(4us));
  EXPECT_EQ(account.communication, Duration(8us));
  EXPECT_EQ(account.profiler_exposed, Duration(0));
  EXPECT_EQ(account.overlap_fraction(), 1);
}

// A window takes its share of the task's slow-down: 4 x 7 / 14.
TEST_F(ContentionTest, IsSharedOutEvenlyOverTheTask) {
  EXPECT_EQ(Account(0us, 7us).contention, Duration(2us));
  EXPECT_EQ(Account(0us, 7us).compute, Duration(5us));
}

// 4 us x 1 ps / 14 us: rounded down to nothing, and the identity still holds.
TEST_F(ContentionTest, IsRoundedDownToAPicosecond) {
  const RankAccount account = Account(0us, Duration(1));
  EXPECT_EQ(account.contention, Duration(0));
  EXPECT_EQ(account.compute, Duration(1));
  EXPECT_EQ(Account(0us, Duration(4)).contention, Duration(1));  // 4 x 4 / 14 = 1.14
}

// A task of `isolated` that took `elapsed`, as a trace may show it.
RankAccount AccountOf(Duration isolated, Duration elapsed) {
  GraphSketch s;
  s.Compute(s.Stream(0, "x"), elapsed, "k");
  Sketched g = s.Build();
  const Timeline timeline = Simulate(g.graph, g.costs);
  g.costs[WorkId{0}].isolated = isolated;
  return AccountRank(g.graph, g.costs, timeline, RankId{0}, {kStepBegin, timeline.makespan});
}

// The product of these two does not fit into the 64 bits of a long double: over the whole task
// the slow-down must come out exactly all the same.
TEST(ContentionOfATaskTest, IsExactOverTheWholeTask) {
  constexpr Duration kSlowDown(968'704'161'877), kElapsed(1'803'204'209'740);
  EXPECT_EQ(AccountOf(kElapsed - kSlowDown, kElapsed).contention, kSlowDown);
}

// A measured kernel may be faster than its model: that is no contention, and no negative one.
TEST(ContentionOfATaskTest, IsNeverNegative) {
  const RankAccount account = AccountOf(5us, 3us);
  EXPECT_EQ(account.contention, Duration(0));
  EXPECT_EQ(account.compute, Duration(3us));
}

}  // namespace
}  // namespace stepsim
