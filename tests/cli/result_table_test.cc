// Does a table come out as CSV and JSON that other programs read back?
#include "tools/stepsim/result_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/diagnostics.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;

ResultTable Example() {
  ResultTable table{{"name", "bytes", "time_us", "is_choice"}};
  table.rows.push_back({std::string("a, \"b\""), std::int64_t{1} << 60, 0.1, true});
  return table;
}

// RFC 4180: a text with a comma or a quote is quoted, its quotes doubled.
TEST(ResultTable, CsvQuotesTextsAndKeepsNumbers) {
  EXPECT_EQ(TableCsv(Example()),
            "name,bytes,time_us,is_choice\n\"a, \"\"b\"\"\",1152921504606846976,0.1,true\n");
}

TEST(ResultTable, JsonHasFactsAndRows) {
  const auto json = nlohmann::json::parse(TableJson(Example(), "test/1", {{"ranks", 8.5}}));
  EXPECT_EQ(json["schema"], "test/1");
  EXPECT_EQ(json["ranks"], 8.5);
  EXPECT_EQ(json["rows"][0]["name"], "a, \"b\"");
  EXPECT_EQ(json["rows"][0]["bytes"], std::int64_t{1} << 60);
  EXPECT_EQ(json["rows"][0]["is_choice"], true);
}

TEST(ResultTable, TextAlignsColumns) {
  EXPECT_EQ(AlignedText({{"size", "t"}, {"1", "2.50"}, {"", ""}, {"1000000", "3"}}, 1),
            "#    size     t\n        1  2.50\n\n  1000000     3\n");
}

TEST(ResultTable, TargetsAreCheckedTogether) {
  const auto targets = ParseTableTargets({"x.csv", "-", "-.csv", "a-.json"});
  ASSERT_EQ(targets.size(), 4u);
  EXPECT_EQ(targets[0].format, TableFormat::kCsv);
  EXPECT_EQ(targets[1].path, "-");
  EXPECT_EQ(targets[1].format, TableFormat::kJson);
  EXPECT_EQ(targets[2].path, "-");
  EXPECT_EQ(targets[2].format, TableFormat::kCsv);
  EXPECT_EQ(targets[3].path, "a-.json");
  try {
    ParseTableTargets({"x.txt", "y"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().size(), 2u);
    EXPECT_THAT(error.what(), HasSubstr("allowed: .csv, .json"));
  }
}

}  // namespace
}  // namespace stepsim
