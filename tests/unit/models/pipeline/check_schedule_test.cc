// What can be wrong with a schedule, and how it is said.
#include "models/pipeline/check_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/pipeline/schedule_csv.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PipelineSchedule Read(const std::string& csv) { return ReadScheduleCsv(csv, "s.csv").schedule; }

std::vector<std::string> Problems(const PipelineSchedule& schedule) {
  std::vector<std::string> messages;
  for (const ScheduleProblem& problem : InvalidActions(schedule)) {
    messages.push_back(problem.message);
  }
  return messages;
}

TEST(CheckScheduleTest, AcceptsWhatIsComplete) {
  EXPECT_THAT(Problems(Read("0F0,0B0\n1F0,1B0\n")), IsEmpty());
  EXPECT_THAT(Problems(Read("0F0,0I0,0W0\n1F0,1I0,1W0\n")), IsEmpty());
  EXPECT_THAT(Problems(Read("0F0,0B0\n1F0,1I0,1W0\n")), IsEmpty());  // a mixture is fine
}

TEST(CheckScheduleTest, NamesWhatIsMissing) {
  EXPECT_THAT(Problems(Read("0F0\n1F0,1B0\n")), ElementsAre("rank 0 never runs 0B0"));
  EXPECT_THAT(Problems(Read("0F0,0I0\n1F0,1I0,1W0\n")), ElementsAre("rank 0 never runs 0W0"));
}

TEST(CheckScheduleTest, NamesWhatIsThereTwice) {
  const PipelineSchedule twice = Read("0F0,0B0,0W0\n1F0,1B0\n");
  EXPECT_THAT(Problems(twice), ElementsAre("found 0W0 a second time"));
  EXPECT_EQ(InvalidActions(twice).front().rank, 0u);
  EXPECT_EQ(InvalidActions(twice).front().action, 2u);
}

TEST(CheckScheduleTest, NamesTheRightRank) {
  // Three cells speak for a loop, one against it.
  EXPECT_THAT(Problems(Read("0F0,0B0,1B0\n1F0\n")),
              ElementsAre("found 1B0 on rank 0, allowed: rank 1", "rank 1 never runs 1B0"));
}

TEST(CheckScheduleTest, PrintsTheCircleOfWaits) {
  // Rank 0 wants its gradient before it hands on the second activation, rank 1 both activations
  // before its first backward.
  const PipelineSchedule schedule = Read("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_THAT(Problems(schedule), IsEmpty());
  EXPECT_EQ(WaitCycle(schedule),
            "rank 0 at 0B0 waits for 1B0 on rank 1, which is behind 1F1\n"
            "rank 1 at 1F1 waits for 0F1 on rank 0, which is behind 0B0");
}

TEST(CheckScheduleTest, ARankCanWaitForItself) {
  EXPECT_EQ(WaitCycle(Read("0B0,0F0\n")),
            "rank 0 at 0B0 waits for 0F0 on rank 0, which is behind 0B0");
  EXPECT_EQ(WaitCycle(Read("(0F0;0B0)OVERLAP_F_B\n")), "rank 0 at 0B0 waits for 0F0 on rank 0");
}

TEST(CheckScheduleTest, NoCircleNoWords) {
  EXPECT_EQ(WaitCycle(Read("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")), "");
}

// A replay in which something starts later than it could is found out.
TEST(CheckScheduleTest, IdlingWhileReadyIsSeen) {
  const PipelineSchedule schedule = Read("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  ScheduleReplay replay = Replay(schedule);
  EXPECT_TRUE(IsWorkConserving(schedule, replay));
  replay.ranks[1].start[2] += 1;
  EXPECT_FALSE(IsWorkConserving(schedule, replay));
}

}  // namespace
}  // namespace stepsim
