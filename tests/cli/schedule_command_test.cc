// stepsim schedule from the outside: picture, facts, files and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace stepsim {
namespace {

using testing::Answer;
using testing::Ask;
using ::testing::HasSubstr;
using testing::ReadAll;
using ::testing::StartsWith;
using Schedule = testing::Cli;

Answer AskSchedule(std::vector<std::string> arguments, std::size_t terminal_width = 0) {
  arguments.insert(arguments.begin(), "schedule");
  return Ask(arguments, "", false, terminal_width);
}

std::string ErrorOf(const std::vector<std::string>& arguments, int status = kExitInput) {
  const Answer answer = AskSchedule(arguments);
  EXPECT_EQ(answer.status, status);
  EXPECT_EQ(answer.out, "");
  return answer.err;
}

TEST_F(Schedule, NumbersThatAreNone) {
  EXPECT_EQ(ErrorOf({"1f1b", "--stages", "four"}),
            "error: --stages: found 'four', allowed: a number\n");
  for (const std::string number : {"1.5", "2147483648"}) {
    EXPECT_EQ(
        ErrorOf({"1f1b", "--microbatches", number}),
        "error: --microbatches: found '" + number + "', allowed: a whole number below 2^31\n");
  }
}

// Two ranks and two micro-batches by hand: F takes one unit, B two, and a unit is four columns.
// Rank 0: F0 at 0, F1 at 1, B0 at 4 (when that of rank 1 ends), B1 at 7. Rank 1: F0 at 1, B0 at 2,
// F1 at 4, B1 at 5.
TEST_F(Schedule, DrawsTheReplay) {
  const Answer answer = AskSchedule({"1f1b", "--stages", "2", "--microbatches", "2"});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("rank 0  F0- F1- ........B0----- ....B1-----\n"
                                    "rank 1  ....F0- B0----- F1- B1----- ........\n"));
  EXPECT_THAT(answer.out, HasSubstr("makespan     9, with free transfers"));
  EXPECT_THAT(answer.out, HasSubstr("bubble       3 of it idle per rank, 33.3%"));
  EXPECT_THAT(answer.out, HasSubstr("closed form  (p-1)(tF+tB) = 3 idle"));
  EXPECT_THAT(answer.out, HasSubstr("chunks stored per rank at most: 2 1 (until W or B)"));
}

// The table of 7.3 for p = 4, m = 8: 51 with 3 idle, and no hole within a rank's own span of 48.
TEST_F(Schedule, StatesBothBubblesOfZeroBubbleSchedules) {
  const std::string out = AskSchedule({"zbv", "--stages", "4", "--microbatches", "8"}).out;
  EXPECT_THAT(out, HasSubstr("makespan     51, with free transfers"));
  EXPECT_THAT(out, HasSubstr("closed form  (p-1)(tF+tI-tW) of chunks = 3 idle"));
  EXPECT_THAT(out, HasSubstr("unaligned    48 from a rank's first start to its last end"));
  EXPECT_THAT(out, HasSubstr("0 of it idle"));
}

TEST_F(Schedule, TimesOfAChunk) {
  // (8 + 4 - 1)(2 + 4) = 66
  EXPECT_THAT(AskSchedule({"1f1b", "--times", "2,3,1"}).out, HasSubstr("makespan     66,"));
  EXPECT_THAT(AskSchedule({"zbv", "--times", "1,3,1"}).out,
              HasSubstr("does not hold for this shape and these times"));
  EXPECT_THAT(ErrorOf({"1f1b", "--times", "1,2"}), HasSubstr("--times: found '1,2', allowed:"));
  EXPECT_THAT(ErrorOf({"1f1b", "--times", "1,0,1"}), HasSubstr("three numbers above 0"));
  EXPECT_THAT(ErrorOf({"1f1b", "--times", "1,nan,1"}), HasSubstr("three numbers above 0"));
}

// No line of a picture is wider than the terminal, whatever has to go for it.
TEST_F(Schedule, FitsTheTerminal) {
  for (const std::size_t width : {60u, 80u, 200u}) {
    for (const char* microbatches : {"4", "32", "500"}) {
      const std::string out = AskSchedule({"zbv", "--microbatches", microbatches}, width).out;
      std::istringstream lines(out);
      for (std::string line; std::getline(lines, line);) {
        if (line.rfind("rank", 0) == 0) {
          EXPECT_LE(line.size(), width) << line;
        }
      }
    }
  }
}

TEST_F(Schedule, LowersAsPyTorchDoes) {
  const std::string out =
      AskSchedule({"Schedule1F1B", "--stages", "2", "--microbatches", "2", "--lower"}).out;
  EXPECT_THAT(out, HasSubstr("rank 0  0UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0"));
}

TEST_F(Schedule, WritesAndReadsPyTorchsGrammar) {
  const std::string path = Path("mine.csv");
  const Answer answer =
      AskSchedule({"1f1b", "--stages", "2", "--microbatches", "2", "--export", path});
  EXPECT_EQ(answer.status, kExitSuccess) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("wrote " + path));
  EXPECT_EQ(ReadAll(path), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(AskSchedule({path}).out, HasSubstr("makespan     9, with free transfers"));
  const Answer piped =
      AskSchedule({"1f1b", "--stages", "2", "--microbatches", "2", "--export", "-"});
  EXPECT_EQ(piped.out, ReadAll(path));
  EXPECT_THAT(piped.err, StartsWith("1f1b: 2 stages x 1 chunk"));
  EXPECT_THAT(ErrorOf({"1f1b", "--export", "x.json"}), HasSubstr("allowed: .csv"));
}

TEST_F(Schedule, RefusesAShapeWithTheNearestValues) {
  EXPECT_THAT(ErrorOf({"dualpipe", "--microbatches", "9"}), HasSubstr("nearest: 8 or 10"));
  EXPECT_THAT(ErrorOf({"zbv", "--stages", "-3"}), HasSubstr("found -3 stages, allowed: from 1"));
  EXPECT_THAT(ErrorOf({"gpipe", "--stages", "2000000000", "--microbatches", "8"}),
              HasSubstr("nearest: 4096"));
  EXPECT_THAT(ErrorOf({"1fb1"}), HasSubstr("schedule: found '1fb1', allowed: gpipe, 1f1b,"));
  EXPECT_THAT(ErrorOf({"1fb1"}), HasSubstr("did you mean '1f1b'?"));
}

TEST_F(Schedule, RefusesAFileThatIsNoSchedule) {
  const std::string missing = Write("missing.csv", "0F0,0B0\n1F0\n");
  EXPECT_THAT(ErrorOf({missing}), HasSubstr("missing.csv:2:1: rank 1 never runs 1B0"));
  const std::string twice = Write("twice.csv", "0F0,0B0,0B0\n");
  EXPECT_THAT(ErrorOf({twice}), HasSubstr("twice.csv:1:9: found 0B0 a second time"));
  const std::string wrong = Write("wrong.csv", "0F0,0Q0\n");
  EXPECT_THAT(ErrorOf({wrong}), HasSubstr("wrong.csv:1:6: found the operation 'Q'"));
  EXPECT_THAT(ErrorOf({Path("none.csv")}), HasSubstr("found no such file"));
  EXPECT_THAT(ErrorOf({wrong, "--stages", "4"}), HasSubstr("allowed: a file alone"));
}

// Exit status 3, and who waits for whom.
TEST_F(Schedule, PrintsTheCircleOfADeadlock) {
  const std::string path = Write("dead.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_THAT(ErrorOf({path}, kExitCannotRun),
              HasSubstr("the ranks wait for each other\n"
                        "rank 0 at 0B0 waits for 1B0 on rank 1, which is behind 1F1\n"
                        "rank 1 at 1F1 waits for 0F1 on rank 0, which is behind 0B0\n"));
}

TEST_F(Schedule, IsListed) {
  const Answer answer = Ask({"list", "schedules"});
  EXPECT_THAT(answer.out, HasSubstr("megatron_interleaved"));
  EXPECT_THAT(answer.out, HasSubstr("dualpipev"));
}

}  // namespace
}  // namespace stepsim
