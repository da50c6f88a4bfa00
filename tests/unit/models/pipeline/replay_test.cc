// Replays against the recorded ones: summary.csv of tests/data/pp_vectors, which an independent
// program made from the recorded tables.
#include "models/pipeline/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "models/pipeline/schedule.h"
#include "tests/support/pipeline_vectors.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;

std::vector<double> Numbers(const std::string& cell) {
  std::istringstream words(cell);
  std::vector<double> numbers;
  for (double number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

template <class Member>
std::vector<double> Column(const ScheduleReplay& replay, Member member) {
  std::vector<double> values;
  for (const RankReplay& rank : replay.ranks) values.push_back(rank.*member);
  return values;
}

// schedule,p,v,m,tF,tI,tW,makespan,max_rank_span,idle...,span...,peak (W or B),peak (I or B)
void ExpectRow(const std::vector<std::string>& cells, const PipelineSchedule& schedule) {
  SCOPED_TRACE(cells[0] + " " + cells[4] + " " + cells[5] + " " + cells[6]);
  const ScheduleReplay replay =
      Replay(schedule, {std::stod(cells[4]), std::stod(cells[5]), std::stod(cells[6])});
  EXPECT_TRUE(replay.is_complete);
  EXPECT_EQ(replay.makespan, std::stod(cells[7]));
  EXPECT_EQ(replay.longest_span(), std::stod(cells[8]));
  EXPECT_EQ(Column(replay, &RankReplay::idle), Numbers(cells[9]));
  EXPECT_EQ(Column(replay, &RankReplay::span), Numbers(cells[10]));
  EXPECT_EQ(Column(replay, &RankReplay::peak_live), Numbers(cells[11]));
  EXPECT_EQ(Column(replay, &RankReplay::peak_until_input_gradient), Numbers(cells[12]));
}

TEST(ReplayTest, EveryRowOfTheRecordedSummary) {
  std::map<std::string, PipelineSchedule> schedules;
  for (const auto& v : testing::PipelineVectors()) {
    schedules[v.name] = FindSchedule(v.schedule)->Make(v.shape);
  }
  std::istringstream lines(testing::ReadPipelineFile("summary.csv"));
  std::size_t rows = 0;
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line); ++rows) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    ASSERT_EQ(cells.size(), 13u) << line;
    ASSERT_EQ(schedules.count(cells[0]), 1u) << cells[0];
    ExpectRow(cells, schedules[cells[0]]);
  }
  EXPECT_EQ(rows, 3 * schedules.size());
}

// Two ranks, one micro-batch: F0 at 0, F1 at 2, B1 at 4 for 3, B0 at 7 for 3.
TEST(ReplayTest, StartsAndEnds) {
  const ScheduleReplay replay = Replay(FindSchedule("1f1b")->Make({.ranks = 2}), {2, 1.5, 1.5});
  EXPECT_THAT(replay.ranks[0].start, ElementsAre(0, 7));
  EXPECT_THAT(replay.ranks[1].start, ElementsAre(2, 4));
  EXPECT_THAT(replay.ranks[0].end, ElementsAre(2, 10));
  EXPECT_EQ(replay.ranks[0].idle, 5);
}

// The pair starts when both inputs are there (F0 of rank 0 and B1 of rank 1 at 3) and hands out
// both outputs at its end.
TEST(ReplayTest, AnOverlappedPairIsOneOperation) {
  PipelineSchedule schedule{"", {.ranks = 1, .chunks = 1, .microbatches = 2}};
  schedule.ranks = {{{ActionKind::kForward, 0, 0},
                     {ActionKind::kForward, 0, 1},
                     {ActionKind::kBackward, 0, 0, true},
                     {ActionKind::kBackward, 0, 1}}};
  const ScheduleReplay replay = Replay(schedule);
  EXPECT_THAT(replay.ranks[0].start, ElementsAre(0, 1, 1, 4));
  EXPECT_THAT(replay.ranks[0].end, ElementsAre(1, 4, 4, 6));
  EXPECT_EQ(replay.ranks[0].peak_live, 2);
}

TEST(ReplayTest, CommunicationIsPassedOver) {
  PipelineSchedule schedule{"", {}};
  schedule.ranks = {{{ActionKind::kUnshard, 0},
                     {ActionKind::kForward, 0, 0},
                     {ActionKind::kBackward, 0, 0},
                     {ActionKind::kReduceGrad, 0}}};
  const ScheduleReplay replay = Replay(schedule);
  EXPECT_TRUE(replay.is_complete);
  EXPECT_EQ(replay.makespan, 3);
}

TEST(ReplayTest, ADeadlockIsIncomplete) {
  PipelineSchedule schedule{"", {}};
  schedule.ranks = {{{ActionKind::kBackward, 0, 0}, {ActionKind::kForward, 0, 0}}};
  EXPECT_FALSE(Replay(schedule).is_complete);
}

}  // namespace
}  // namespace stepsim
