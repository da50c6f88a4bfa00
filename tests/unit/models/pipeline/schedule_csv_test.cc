// PyTorch's grammar: what is read, what is refused and in which words.
#include "models/pipeline/schedule_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/pipeline/lowering.h"
#include "tests/support/pipeline_vectors.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& csv) {
  try {
    ReadScheduleCsv(csv, "s.csv");
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    return error.diagnostics().front().ToString();
  }
  return "";
}

TEST(ScheduleCsvTest, ReadsCellsAndTheirPlaces) {
  const ScheduleFile file = ReadScheduleCsv("0F0,, 0B0\r\n1F0,1I0,1W0\n", "s.csv");
  EXPECT_EQ(file.schedule.ranks[0],
            (std::vector<Action>{{ActionKind::kForward, 0, 0}, {ActionKind::kBackward, 0, 0}}));
  EXPECT_EQ(file.PlaceOf(0, 1).ToString(), "s.csv:1:7");
  EXPECT_EQ(file.PlaceOf(1, 2).ToString(), "s.csv:2:9");
  EXPECT_TRUE(file.schedule.splits_backward);
}

TEST(ScheduleCsvTest, ProblemsHaveTheirPlaces) {
  const auto problems =
      ProblemsOf(ReadScheduleCsv("0F0,0B0,(0F1;0B0)OVERLAP_F_B\n\n1F0,1F1,1B0\n", "s.csv"));
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].ToString(), "s.csv:1:14: found 0B0 a second time");
  EXPECT_EQ(problems[1].ToString(), "s.csv:1:1: rank 0 never runs 0B1");
  EXPECT_EQ(problems[2].ToString(), "s.csv:3:1: rank 1 never runs 1B1");
}

TEST(ScheduleCsvTest, FindsShapeAndPlacement) {
  for (const testing::PipelineVector& v : testing::PipelineVectors()) {
    const PipelineSchedule ours = FindSchedule(v.schedule)->Make(v.shape);
    const PipelineSchedule read =
        ReadScheduleCsv(testing::ReadPipelineFile(v.name + "_compute.csv"), v.name).schedule;
    EXPECT_EQ(read.placement, ours.placement) << v.name;
    EXPECT_EQ(read.shape.ranks, v.shape.ranks) << v.name;
    EXPECT_EQ(read.shape.chunks, v.shape.chunks) << v.name;
    EXPECT_EQ(read.shape.microbatches, v.shape.microbatches) << v.name;
    EXPECT_EQ(read.splits_backward, ours.splits_backward) << v.name;
  }
}

TEST(ScheduleCsvTest, EverythingOfOursComesBackTheSame) {
  for (const ScheduleRow& row : Schedules()) {
    const PipelineSchedule schedule =
        row.Make({.ranks = 4, .chunks = row.default_chunks, .microbatches = 8});
    for (const PipelineSchedule& s : {schedule, Lower(schedule)}) {
      const PipelineSchedule again = ReadScheduleCsv(WriteScheduleCsv(s), "again.csv").schedule;
      EXPECT_EQ(again.ranks, s.ranks) << row.name;
      EXPECT_EQ(again.placement, s.placement) << row.name;
    }
  }
}

TEST(ScheduleCsvTest, SaysWhereACellIsWrong) {
  EXPECT_THAT(ErrorOf("0F0,0X0\n"), HasSubstr("s.csv:1:6: found the operation 'X' in '0X0', "
                                              "allowed: F, B, I, W, UNSHARD"));
  EXPECT_THAT(ErrorOf("0F0,0B0\n1F0,1SENDF0\n"),
              HasSubstr("s.csv:2:6: found the operation 'SENDF' in '1SENDF0', allowed:"));
  EXPECT_THAT(ErrorOf("1SENDF0\n"), HasSubstr("; did you mean 'SEND_F'?"));
  EXPECT_THAT(ErrorOf("F0\n"), HasSubstr("s.csv:1:1: found 'F0' where the stage should stand"));
  EXPECT_THAT(ErrorOf("0F\n"), HasSubstr("s.csv:1:3: found '' where the micro-batch should stand"));
  EXPECT_THAT(ErrorOf("0F99999999999999999999\n"),
              HasSubstr("allowed: a number below 65536, as in 0F3"));
  EXPECT_THAT(ErrorOf("0UNSHARD7\n"), HasSubstr("found '7' behind 0UNSHARD"));
  EXPECT_THAT(ErrorOf("(0F0;0B0\n"), HasSubstr("allowed: (0F1;1B0)OVERLAP_F_B"));
  EXPECT_THAT(ErrorOf("(0F0;0W0)OVERLAP_F_B\n"), HasSubstr("allowed: an F and a B together"));
  EXPECT_THAT(ErrorOf(std::string("0F0\0", 4)), HasSubstr("s.csv:1:4: found '?' behind 0F0"));
}

TEST(ScheduleCsvTest, SaysWhatIsWrongWithTheWhole) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("s.csv:1:1: found no forward or backward"));
  EXPECT_THAT(ErrorOf("\n\n"), HasSubstr("found no forward or backward"));
  EXPECT_THAT(ErrorOf("0F0,1F0,2F0\n0F0\n"),
              HasSubstr("s.csv:1:9: found 3 stages on 2 ranks (lines), allowed: a multiple of 2"));
  // One cell must not make room for 65,536 micro-batches on a million stages.
  EXPECT_THAT(ErrorOf("1000000F65535\n"),
              HasSubstr("s.csv:1:1: found 1 forwards, allowed: 65536065536 for 1000001 stages"));
  EXPECT_THAT(ErrorOf(std::string(5000, '\n') + "0F0\n"), "");
  std::string many;
  for (int i = 0; i < 4097; ++i) many += "0F0\n";
  EXPECT_THAT(ErrorOf(many), HasSubstr("s.csv:4097:1: found more than 4096 lines, one per rank"));
}

// Cut anywhere, a table is either read or refused with one message.
TEST(ScheduleCsvTest, TruncatedTables) {
  const std::string csv = testing::ReadPipelineFile("torch_dualpipev_p2_m4_comms.csv");
  for (std::size_t length = 0; length < csv.size(); ++length) {
    try {
      ReadScheduleCsv(csv.substr(0, length), "s.csv");
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.diagnostics().size(), 1u);
    }
  }
}

}  // namespace
}  // namespace stepsim
