// What running together costs: hand-computed times with simple interference functions.
#include "sim/engine/shared_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/diagnostics.h"
#include "sim/engine/simulate.h"
#include "tests/support/sketch.h"

namespace stepsim {
namespace {

using std::chrono_literals::operator""us;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

SimTime At(Duration time) { return kStepBegin + time; }

// Gives every task the rate that `rate` returns and remembers what it was asked.
class FakeInterference : public Interference {
 public:
  using RateOf = std::function<double(RankId, std::span<const RunningTask>, RunningTask)>;
  explicit FakeInterference(RateOf rate) : rate_(std::move(rate)) {}

  void Rates(RankId rank, std::span<const RunningTask> running, std::span<double> rates) override {
    std::vector<TaskId> tasks;
    for (std::size_t i = 0; i < running.size(); ++i) {
      rates[i] = rate_(rank, running, running[i]);
      tasks.push_back(running[i].task);
    }
    asked_.push_back(tasks);
  }

  const std::vector<std::vector<TaskId>>& asked() const { return asked_; }

 private:
  RateOf rate_;
  std::vector<std::vector<TaskId>> asked_;
};

FakeInterference Constant(double rate) {
  return FakeInterference(
      [rate](RankId, std::span<const RunningTask>, RunningTask) { return rate; });
}

// Two tasks share the rank evenly: 4 us of work take 8, then the other runs alone: 8 us in which
// 4 us of its 10 were done, plus the remaining 6.
TEST(SharedRatesTest, HalfSpeedWhileTwoRun) {
  GraphSketch s;
  const TaskId a = s.Compute(s.Stream(0, "x"), 10us), b = s.Compute(s.Stream(0, "y"), 4us);
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_EQ(t.end[b], At(8us));
  EXPECT_EQ(t.end[a], At(14us));
  EXPECT_EQ(t.makespan, At(14us));
  EXPECT_THAT(half.asked(), ElementsAre(ElementsAre(a, b)));
}

// Rates of 0.8 and 0.25 by task, a third task that comes later. a: 10 us of work, b: 1 us; both
// from 0. b ends at 1 / 0.25 = 4 us, a has then done 3.2; alone until c comes at 6 us (done: 5.2);
// beside c the remaining 4.8 take 6 us: 12 us.
TEST(SharedRatesTest, RatesDifferByTaskAndChangeOnTheWay) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y"), far = s.Stream(1, "far");
  const TaskId a = s.Compute(x, 10us, "a"), b = s.Compute(y, 1us, "b");
  const TaskId clock = s.Compute(far, 6us);
  const TaskId c = s.Compute(y, 100us, "c", {clock});
  const Sketched g = s.Build();
  FakeInterference by_task([&](RankId, std::span<const RunningTask>, RunningTask r) {
    return r.task == a ? 0.8 : 0.25;
  });
  const Timeline t = Simulate(g.graph, g.costs, &by_task);
  EXPECT_EQ(t.end[b], At(4us));
  EXPECT_EQ(t.start[c], At(6us));
  EXPECT_EQ(t.end[a], At(12us));
  EXPECT_EQ(t.end[c], At(12us + 98'500'000 * Duration(1)));  // 1.5 us done in 6 us at 0.25
}

// A task that is alone on its rank costs no call, however many run elsewhere.
TEST(SharedRatesTest, AloneCostsNoCall) {
  GraphSketch s;
  for (int rank = 0; rank < 3; ++rank) {
    const StreamId x = s.Stream(rank, "x"), y = s.Stream(rank, "y");
    const TaskId a = s.Compute(x, 5us);
    s.Compute(y, 5us, "after", {a});
    s.Compute(x, 0us, "after", {TaskId{static_cast<std::uint32_t>(a) + 1}});
  }
  const Sketched g = s.Build();
  FakeInterference never = Constant(0.5);
  EXPECT_EQ(Simulate(g.graph, g.costs, &never).makespan, At(10us));
  EXPECT_TRUE(never.asked().empty());
}

// At 8 us b ends and c takes its place: one question about the moment, not two.
TEST(SharedRatesTest, AskedOnceForAMoment) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 10us), b = s.Compute(y, 4us), c = s.Compute(y, 4us);
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_THAT(half.asked(), ElementsAre(ElementsAre(a, b), ElementsAre(a, c)));
  EXPECT_EQ(t.end[c], At(16us));
  EXPECT_EQ(t.end[a], At(18us));
}

// Both end at 8 us, one event after the other; both successors start. Between the two events b is
// not beside c: that set exists for no time and is not asked about.
TEST(SharedRatesTest, AskedOnceWhenTwoEndTogether) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 4us), c = s.Compute(x, 4us);
  const TaskId b = s.Compute(y, 4us), d = s.Compute(y, 4us);
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  EXPECT_EQ(Simulate(g.graph, g.costs, &half).makespan, At(16us));
  EXPECT_THAT(half.asked(), ElementsAre(ElementsAre(a, b), ElementsAre(c, d)));
}

// 1 ps of work at three quarters of full speed takes 1.33 ps: two whole ones.
TEST(SharedRatesTest, CompletionsAreRoundedUp) {
  GraphSketch s;
  const TaskId a = s.Compute(s.Stream(0, "x"), Duration(1));
  s.Compute(s.Stream(0, "y"), 1us);
  const Sketched g = s.Build();
  FakeInterference three_quarters = Constant(0.75);
  EXPECT_EQ(Simulate(g.graph, g.costs, &three_quarters).end[a], At(Duration(2)));
}

// The all-reduce of 10 us runs beside a kernel on rank 0 only. While the kernel runs (4 us of work
// at half speed: 8 us) the whole collective goes at half speed: 4 us done, then 6 more.
TEST(SharedRatesTest, ACollectiveGoesAtThePaceOfItsSlowestRank) {
  GraphSketch s;
  const TaskId kernel = s.Compute(s.Stream(0, "x"), 4us);
  const TaskId r0 = s.Transfer(s.Stream(0, "nccl"), 10us, Site::kGradientReduce);
  const TaskId r1 = s.Transfer(s.Stream(1, "nccl"), 10us, Site::kGradientReduce);
  s.Meet({r0, r1});
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_EQ(t.end[kernel], At(8us));
  EXPECT_EQ(t.end[r0], At(14us));
  EXPECT_EQ(t.end[r1], At(14us));
}

// The member that slows down need not be the first: here rank 1's kernel starts at 2 us.
TEST(SharedRatesTest, AnyRankOfACollectiveMaySlowIt) {
  GraphSketch s;
  const TaskId r0 = s.Transfer(s.Stream(0, "nccl"), 10us, Site::kGradientReduce);
  const TaskId r1 = s.Transfer(s.Stream(1, "nccl"), 10us, Site::kGradientReduce);
  s.Meet({r0, r1});
  const TaskId clock = s.Compute(s.Stream(2, "x"), 2us);
  const TaskId kernel = s.Compute(s.Stream(1, "x"), 3us, "kernel", {clock});
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_EQ(t.end[kernel], At(8us));  // 3 us at half speed from 2 us on
  EXPECT_EQ(t.end[r0], At(13us));     // 2 done by 2 us, 3 more by 8 us, 5 alone
}

// A member that waits for its peers holds its place (the kernel beside it is slowed) but does not
// advance: the transfer starts with the peer at 20 us.
TEST(SharedRatesTest, AWaitingMemberIsResidentAndDoesNotAdvance) {
  GraphSketch s;
  const TaskId kernel = s.Compute(s.Stream(0, "x"), 4us);
  const TaskId r0 = s.Transfer(s.Stream(0, "nccl"), 10us, Site::kGradientReduce);
  const StreamId late = s.Stream(1, "nccl");
  s.Compute(late, 20us);
  const TaskId r1 = s.Transfer(late, 10us, Site::kGradientReduce);
  s.Meet({r0, r1});
  const Sketched g = s.Build();
  std::vector<bool> transferring;
  FakeInterference half([&](RankId, std::span<const RunningTask>, RunningTask r) {
    if (r.task == r0) transferring.push_back(r.is_transferring);
    return 0.5;
  });
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_EQ(t.end[kernel], At(8us));
  EXPECT_EQ(t.meetings[RendezvousId{0}].transfer_start, At(20us));
  EXPECT_EQ(t.end[r0], At(30us));
  EXPECT_THAT(transferring, ElementsAre(false));
}

// From the moment the last peer arrives the waiting member transfers, and the function is told.
TEST(SharedRatesTest, TheLastArrivalStartsTheTransferEverywhere) {
  GraphSketch s;
  const TaskId kernel = s.Compute(s.Stream(0, "x"), 30us);
  const TaskId r0 = s.Transfer(s.Stream(0, "nccl"), 10us, Site::kGradientReduce);
  const StreamId late = s.Stream(1, "nccl");
  s.Compute(late, 20us);
  const TaskId r1 = s.Transfer(late, 10us, Site::kGradientReduce);
  s.Meet({r0, r1});
  const Sketched g = s.Build();
  // Spinning is free here; transferring halves both.
  FakeInterference when_transferring(
      [&](RankId, std::span<const RunningTask> running, RunningTask) {
        const bool transfers = std::any_of(running.begin(), running.end(), [&](RunningTask r) {
          return r.task == r0 && r.is_transferring;
        });
        return transfers ? 0.5 : 1.0;
      });
  const Timeline t = Simulate(g.graph, g.costs, &when_transferring);
  EXPECT_EQ(t.end[r0], At(40us));      // 10 us at half speed from 20 us on
  EXPECT_EQ(t.end[kernel], At(40us));  // 20 done, 10 at half speed
}

// ---- Start delays ----

// Transfers begin `delay` after they are ready, wherever kernels were there before them; everything
// that runs beside another runs at half speed.
class Delaying : public Interference {
 public:
  explicit Delaying(Duration delay, double rate = 1) : delay_(delay), rate_(rate) {}

  void Rates(RankId, std::span<const RunningTask> running, std::span<double> rates) override {
    for (std::size_t i = 0; i < running.size(); ++i) {
      placed_.push_back(running[i].is_placed);
      transferring_.push_back(running[i].is_transferring);
      rates[i] = rate_;
    }
  }
  Duration StartDelay(RankId rank, const RunningTask& transfer,
                      std::span<const RunningKernel> running) override {
    ranks_.push_back(rank);
    transfers_.push_back(transfer.task);
    for (const RunningKernel& kernel : running) remaining_.push_back(kernel.remaining);
    return delay_;
  }

  std::vector<bool> placed_, transferring_;
  std::vector<RankId> ranks_;
  std::vector<TaskId> transfers_;
  std::vector<Duration> remaining_;

 private:
  Duration delay_;
  double rate_;
};

// Ready at 0, begins at 3 us, lasts 5. The kernel came first.
TEST(StartDelayTest, IsAddedToTheTransfer) {
  GraphSketch s;
  const TaskId kernel = s.Compute(s.Stream(0, "x"), 10us);
  const TaskId transfer = s.Transfer(s.Stream(0, "nccl"), 5us, Site::kGradientReduce);
  const Sketched g = s.Build();
  Delaying delaying(3us);
  const Timeline t = Simulate(g.graph, g.costs, &delaying);
  EXPECT_EQ(t.start[transfer], At(0us));
  EXPECT_EQ(t.end[transfer], At(8us));
  EXPECT_EQ(t.end[kernel], At(10us));
  EXPECT_THAT(delaying.transfers_, ElementsAre(transfer));
  EXPECT_THAT(delaying.remaining_, ElementsAre(10us));
  // First it has no place; then it transfers.
  EXPECT_THAT(delaying.placed_, ElementsAre(true, false, true, true));
  EXPECT_THAT(delaying.transferring_, ElementsAre(true, false, true, true));
}

// At half speed 4 of the kernel's 10 us are left at 12 us, when the second transfer is ready.
TEST(StartDelayTest, KnowsWhatIsLeftOfTheKernels) {
  GraphSketch s;
  s.Compute(s.Stream(0, "x"), 10us);
  const TaskId clock = s.Compute(s.Stream(0, "y"), 6us);
  s.Transfer(s.Stream(0, "nccl"), 5us, Site::kGradientReduce, "t", {clock});
  const Sketched g = s.Build();
  Delaying delaying(0us, 0.5);
  Simulate(g.graph, g.costs, &delaying);
  EXPECT_THAT(delaying.remaining_, ElementsAre(4us));
}

// Neither a transfer that comes first, nor one beside transfers only, nor one without any work.
TEST(StartDelayTest, IsAskedOnlyBehindKernels) {
  GraphSketch s;
  s.Transfer(s.Stream(0, "first"), 5us, Site::kGradientReduce);
  s.Transfer(s.Stream(0, "second"), 5us, Site::kGradientReduce);
  s.Compute(s.Stream(0, "x"), 10us);
  s.Transfer(s.Stream(0, "nothing"), 0us, Site::kGradientReduce);
  s.Host(s.Stream(1, "host"), 10us);
  s.Transfer(s.Stream(1, "nccl"), 5us, Site::kGradientReduce);
  const Sketched g = s.Build();
  Delaying delaying(3us);
  Simulate(g.graph, g.costs, &delaying);
  EXPECT_TRUE(delaying.transfers_.empty());
}

// Rank 0 is there at 0 and waits for its place until 7; rank 1 comes at 2 and needs none. Both
// transfer from 7 on. When the peer comes later than that, nothing is added.
TEST(StartDelayTest, TheLastPlaceStartsTheTransfer) {
  for (const Duration late : {Duration(2us), Duration(9us)}) {
    GraphSketch s;
    const TaskId kernel = s.Compute(s.Stream(0, "x"), 30us);
    const TaskId r0 = s.Transfer(s.Stream(0, "nccl"), 5us, Site::kGradientReduce);
    const TaskId clock = s.Compute(s.Stream(1, "x"), late);
    const TaskId r1 = s.Transfer(s.Stream(1, "nccl"), 5us, Site::kGradientReduce, "t", {clock});
    s.Meet({r0, r1});
    const Sketched g = s.Build();
    Delaying delaying(7us);
    const Timeline t = Simulate(g.graph, g.costs, &delaying);
    EXPECT_EQ(t.end[r0], At(std::max(late, Duration(7us)) + 5us));
    EXPECT_EQ(t.end[r1], t.end[r0]);
    EXPECT_EQ(t.end[kernel], At(30us));
    EXPECT_THAT(delaying.ranks_, ElementsAre(RankId{0}));
  }
}

TEST(StartDelayTest, RefusesToStartEarlier) {
  GraphSketch s;
  s.Compute(s.Stream(0, "x"), 4us);
  s.Transfer(s.Stream(0, "nccl"), 4us, Site::kGradientReduce);
  const Sketched g = s.Build();
  Delaying early(-1us);
  EXPECT_THAT([&] { Simulate(g.graph, g.costs, &early); },
              ThrowsMessage<InternalError>(HasSubstr("earlier")));
  Delaying never(Duration::max());
  EXPECT_THROW(Simulate(g.graph, g.costs, &never), SimulationError);
}

TEST(SharedRatesTest, HostTasksDoNotRunOnTheDevice) {
  GraphSketch s;
  const TaskId kernel = s.Compute(s.Stream(0, "x"), 4us);
  const TaskId host = s.Host(s.Stream(0, "host"), 3us);
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_EQ(t.end[kernel], At(4us));
  EXPECT_EQ(t.end[host], At(3us));
  EXPECT_TRUE(half.asked().empty());
}

TEST(SharedRatesTest, ZeroDurationsEndAtOnceAtAnyRate) {
  GraphSketch s;
  const StreamId x = s.Stream(0, "x"), y = s.Stream(0, "y");
  const TaskId a = s.Compute(x, 0us), b = s.Compute(y, 4us), c = s.Compute(x, 0us, "c", {b});
  const Sketched g = s.Build();
  FakeInterference half = Constant(0.5);
  const Timeline t = Simulate(g.graph, g.costs, &half);
  EXPECT_EQ(t.end[a], At(0us));
  EXPECT_EQ(t.end[b], At(4us));
  EXPECT_EQ(t.end[c], At(4us));
}

TEST(SharedRatesTest, RefusesRatesThatAreNone) {
  for (const double rate : {0.0, -0.5, 1.5, std::nan("")}) {
    GraphSketch s;
    s.Compute(s.Stream(0, "x"), 4us);
    s.Compute(s.Stream(0, "y"), 4us);
    const Sketched g = s.Build();
    FakeInterference wrong = Constant(rate);
    EXPECT_THAT([&] { Simulate(g.graph, g.costs, &wrong); },
                ThrowsMessage<InternalError>(HasSubstr("rates in (0, 1]")))
        << rate;
  }
}

TEST(SharedRatesTest, ASlowDownBeyondTheRangeOfTimeIsAnError) {
  GraphSketch s;
  s.Compute(s.Stream(0, "x"), std::chrono::hours(24));
  s.Compute(s.Stream(0, "y"), std::chrono::hours(24));
  const Sketched g = s.Build();
  FakeInterference crawl = Constant(1e-6);
  EXPECT_THAT([&] { Simulate(g.graph, g.costs, &crawl); },
              ThrowsMessage<SimulationError>(
                  "the step would take longer than 100 days: check sizes and rates"));
}

// 70 days in picoseconds have more digits than a double holds: at full speed nothing may be lost.
TEST(SharedRatesTest, FullSpeedIsExactForAnyDuration) {
  constexpr Duration kOdd = Duration(6'048'000'000'000'000'001);
  GraphSketch s;
  const TaskId a = s.Compute(s.Stream(0, "x"), kOdd), b = s.Compute(s.Stream(0, "y"), kOdd);
  const Sketched g = s.Build();
  FakeInterference identity = Constant(1);
  const Timeline t = Simulate(g.graph, g.costs, &identity);
  EXPECT_EQ(t.end[a], At(kOdd));
  EXPECT_EQ(t.end[b], At(kOdd));
}

}  // namespace
}  // namespace stepsim
