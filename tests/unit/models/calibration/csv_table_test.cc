// The format is RFC 4180's; what is wrong is named with its line and column.
#include "models/calibration/csv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text, CsvLimits limits = {}) {
  try {
    ParseCsv(text, "t.csv", limits);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ParseCsv, KeepsCellsWithTheirPlaces) {
  const CsvTable table = ParseCsv("a,b,c\n1,\"x, \"\"y\"\"\",3\n", "t.csv");
  EXPECT_THAT(table.columns(), ElementsAre("a", "b", "c"));
  ASSERT_EQ(table.rows(), 1u);
  EXPECT_EQ(table.cell(0, 1), "x, \"y\"");
  EXPECT_EQ(table.PlaceOf(0, 1).line, 2);
  EXPECT_EQ(table.PlaceOf(0, 1).column, 3);
}

TEST(ParseCsv, ReadsWindowsLinesMarksCommentsAndEmptyLines) {
  const CsvTable table = ParseCsv("\xEF\xBB\xBF# note\r\na,b\r\n\r\n1,\r\n# more\n3,4", "t.csv");
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.cell(0, 1), "");
  EXPECT_EQ(table.cell(1, 1), "4");
  EXPECT_EQ(table.PlaceOf(1, 0).line, 6);
}

// A line break inside quotes belongs to the cell; the lines behind it keep their numbers.
TEST(ParseCsv, CountsLinesInsideQuotes) {
  const CsvTable table = ParseCsv("a\n\"1\n2\"\n3\n", "t.csv");
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.cell(0, 0), "1\n2");
  EXPECT_EQ(table.PlaceOf(1, 0).line, 4);
}

TEST(ParseCsv, NamesWhatIsWrong) {
  EXPECT_EQ(ErrorOf(""), "t.csv:1:1: found an empty table, allowed: a header line and rows");
  EXPECT_EQ(ErrorOf("a,b\n1\n1,2,3\n"),
            "t.csv:2:1: found 1 cells, allowed: 2 as in the header\n"
            "t.csv:3:1: found 3 cells, allowed: 2 as in the header");
  EXPECT_EQ(ErrorOf("a,a\n"), "t.csv:1:3: found the column 'a' a second time");
  EXPECT_EQ(ErrorOf("a\n\"1\n"), "t.csv:2:1: found a quote that is never closed");
  EXPECT_THAT(ErrorOf("a\n\"1\"2\n"), HasSubstr("t.csv:2:4: found '2' behind a cell"));
  EXPECT_THAT(ErrorOf(std::string("a\n\0\n", 4)), HasSubstr("zero byte"));
  EXPECT_THAT(ErrorOf("a\n1\n", {.max_bytes = 3}), HasSubstr("allowed: at most"));
  EXPECT_THAT(ErrorOf("a,b,c\n", {.max_bytes = 99, .max_columns = 2}), HasSubstr("more than 2"));
}

TEST(ParseCsv, ShowsAHandfulOfProblems) {
  std::string text = "a,b\n";
  for (int i = 0; i < 100; ++i) text += "1\n";
  EXPECT_THAT(ErrorOf(text), HasSubstr("and 80 more problems"));
}

TEST(CsvReader, NamesMissingColumns) {
  const CsvTable table = ParseCsv("size_byte,time_us\n", "t.csv");
  try {
    CsvReader reader(table, {"size_bytes", "time_us"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "t.csv:1:1: the column 'size_bytes' is missing, found: size_byte, time_us; is it "
                 "'size_byte'?");
  }
}

TEST(CsvReader, RefusesWhatIsNoAmount) {
  for (const char* bad : {"nan", "inf", "0", "-1", "12 us", "", "0x10", "1e999"}) {
    const CsvTable table = ParseCsv("x,time_us\n1," + std::string(bad) + "\n", "t.csv");
    CsvReader reader(table, {"time_us"});
    EXPECT_FALSE(reader.Positive(0, "time_us").has_value()) << bad;
    try {
      reader.ThrowIfAny();
      FAIL() << bad;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("t.csv:2:3: time_us: found '")) << bad;
    }
  }
  const CsvTable table = ParseCsv("n,t\n8,12.5\n", "t.csv");
  CsvReader reader(table, {"n"});
  EXPECT_EQ(reader.PositiveInteger(0, "n"), 8);
  EXPECT_EQ(reader.Positive(0, "t"), 12.5);
  EXPECT_EQ(reader.Text(0, "nothing"), "");
  reader.ThrowIfAny();
}

}  // namespace
}  // namespace stepsim
