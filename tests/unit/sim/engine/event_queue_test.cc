#include "sim/engine/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/workloads.h"

namespace stepsim {
namespace {

Event At(std::int64_t picoseconds, std::uint32_t task = 0) {
  return {SimTime(Duration(picoseconds)), TaskId{task}};
}

std::int64_t TimeOf(const Event& event) { return event.time.time_since_epoch().count(); }

TEST(EventQueueTest, TakesTheEarliest) {
  EventQueue queue;
  EXPECT_TRUE(queue.empty());
  for (const std::int64_t time : {70, 3, 1'000'000, 0, 69}) queue.Push(At(time));
  for (const std::int64_t time : {0, 3, 69, 70, 1'000'000}) {
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(TimeOf(queue.Take()), time);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueueTest, EqualTimesLeaveInTheOrderOfPushing) {
  EventQueue queue;
  for (std::uint32_t task = 0; task < 100; ++task) queue.Push(At(task % 2 == 0 ? 50 : 7, task));
  for (std::uint32_t task = 1; task < 100; task += 2) EXPECT_EQ(queue.Take().task, TaskId{task});
  for (std::uint32_t task = 0; task < 100; task += 2) EXPECT_EQ(queue.Take().task, TaskId{task});
}

TEST(EventQueueTest, AnEventOfThePresentComesAfterThoseThatAreDue) {
  EventQueue queue;
  queue.Push(At(5, 0));
  queue.Push(At(5, 1));
  EXPECT_EQ(queue.Take().task, TaskId{0});
  EXPECT_TRUE(queue.is_due());
  queue.Push(At(5, 2));
  EXPECT_EQ(queue.Take().task, TaskId{1});
  EXPECT_EQ(queue.Take().task, TaskId{2});
  EXPECT_FALSE(queue.is_due());
  EXPECT_TRUE(queue.empty());
  queue.Push(At(5, 3));
  EXPECT_TRUE(queue.is_due());
  EXPECT_EQ(queue.Take().task, TaskId{3});
}

TEST(EventQueueTest, NothingIsDueUntilThePresentHasEvents) {
  EventQueue queue;
  EXPECT_FALSE(queue.is_due());
  queue.Push(At(1));
  EXPECT_FALSE(queue.is_due());
  EXPECT_FALSE(queue.empty());
}

// 32 and 33 differ from 0 in the same digit: when 32 becomes the present, 33 must be found
// before 37.
TEST(EventQueueTest, ANeighbourOfTheNextEventIsNotOvertaken) {
  EventQueue queue;
  queue.Push(At(32));
  queue.Push(At(33));
  EXPECT_EQ(TimeOf(queue.Take()), 32);
  queue.Push(At(37));
  EXPECT_EQ(TimeOf(queue.Take()), 33);
  EXPECT_EQ(TimeOf(queue.Take()), 37);
  EXPECT_TRUE(queue.empty());
}

// An earlier event takes the place of the next one; an equal one comes after it.
TEST(EventQueueTest, TheNextEventGivesWay) {
  EventQueue queue;
  queue.Push(At(1000, 0));
  queue.Push(At(1000, 1));
  queue.Push(At(3, 2));
  queue.Push(At(1000, 3));
  for (const std::uint32_t task : {2u, 0u, 1u, 3u}) EXPECT_EQ(queue.Take().task, TaskId{task});
}

TEST(EventQueueTest, ReachesTheEndOfTime) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  EventQueue queue;
  for (const std::int64_t time : {kLast, kLast - 1, std::int64_t{1} << 62, std::int64_t{1}}) {
    queue.Push(At(time));
  }
  for (const std::int64_t time : {std::int64_t{1}, std::int64_t{1} << 62, kLast - 1, kLast}) {
    EXPECT_EQ(TimeOf(queue.Take()), time);
  }
}

// Against a sorted list: random pushes of all magnitudes between random takes.
TEST(EventQueueTest, AgreesWithAStableSort) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    EventQueue queue;
    std::vector<Event> sorted;  // pending, by (time, sequence)
    std::int64_t now = 0;
    for (std::uint32_t i = 0; i < 2000; ++i) {
      if (sorted.empty() || random.Between(0, 99) < 55) {
        const std::int64_t magnitude = std::int64_t{1} << random.Between(0, 50);
        const Event event = At(now + random.Between(0, magnitude) / 2, i);
        queue.Push(event);
        sorted.insert(
            std::upper_bound(sorted.begin(), sorted.end(), event,
                             [](const Event& a, const Event& b) { return a.time < b.time; }),
            event);
      } else {
        const Event event = queue.Take();
        ASSERT_EQ(event.time, sorted.front().time);
        ASSERT_EQ(event.task, sorted.front().task);
        sorted.erase(sorted.begin());
        now = TimeOf(event);
      }
      ASSERT_EQ(queue.empty(), sorted.empty());
    }
  }
}

}  // namespace
}  // namespace stepsim
