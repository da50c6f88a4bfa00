#include "tools/sweep/axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/config/read_config.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Values(const std::string& path, const std::string& text) {
  const Place place{"--vary", 0, 0};
  std::vector<std::string> sets;
  for (const AxisValue& value : ReadAxis(path, place, VaryNode(text, place)).values) {
    sets.push_back(value.set);
  }
  return sets;
}

std::string ErrorOf(const std::string& path, const std::string& text) {
  try {
    Values(path, text);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    return error.diagnostics().front().ToString();
  }
  return "";
}

constexpr const char* kCap = "plan.ddp.bucket_cap_mb";
constexpr const char* kMemory = "hardware.gpu.memory";

TEST(Axis, AListMayHoldRanges) {
  EXPECT_THAT(Values(kCap, "1,5,25:400:x2"),
              ElementsAre("1", "5", "25", "50", "100", "200", "400"));
  EXPECT_THAT(Values("nodes", " 1, 2 ,8"), ElementsAre("1", "2", "8"));
  EXPECT_THAT(Values("nodes", "[1, 2:4:+1]"), ElementsAre("1", "2", "3", "4"));
}

TEST(Axis, RangesIncludeTheirEndWhereAStepLeadsThere) {
  EXPECT_THAT(Values("nodes", "8:24:+8"), ElementsAre("8", "16", "24"));
  EXPECT_THAT(Values("nodes", "8:24:8"), ElementsAre("8", "16", "24"));
  EXPECT_THAT(Values("nodes", "8:23:8"), ElementsAre("8", "16"));
  EXPECT_THAT(Values("nodes", "1:10:x3"), ElementsAre("1", "3", "9"));
  EXPECT_THAT(Values("nodes", "32:400:x2"), ElementsAre("32", "64", "128", "256"));
  EXPECT_THAT(Values("nodes", "4:4:+1"), ElementsAre("4"));
  EXPECT_THAT(Values("nodes", "9:1:-4"), ElementsAre("9", "5", "1"));
  EXPECT_THAT(Values("nodes", "8:1:x0.5"), ElementsAre("8", "4", "2", "1"));
  // Rounding neither loses the end nor shows in the values.
  EXPECT_THAT(Values(kCap, "0.1:0.5:+0.1"), ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5"));
  EXPECT_THAT(Values(kCap, "1:1.331:x1.1"), ElementsAre("1", "1.1", "1.21", "1.331"));
}

TEST(Axis, QuantitiesKeepTheirUnits) {
  EXPECT_THAT(Values(kMemory, "40GiB:160 GiB:x2"), ElementsAre("40 GiB", "80 GiB", "160 GiB"));
  EXPECT_THAT(Values(kMemory, "40 GB:60 GB:+10GB"), ElementsAre("40 GB", "50 GB", "60 GB"));
  EXPECT_THAT(Values("network.link.bandwidth", "100 Gb/s:400 Gb/s:x2"),
              ElementsAre("100 Gb/s", "200 Gb/s", "400 Gb/s"));
  EXPECT_THAT(ErrorOf(kMemory, "40:80 GiB:x2"), HasSubstr("GiB"));
}

TEST(Axis, NamesListsAndNull) {
  EXPECT_THAT(Values("network", "ethernet-10g,ethernet-25g"),
              ElementsAre("ethernet-10g", "ethernet-25g"));
  EXPECT_THAT(Values("plan.strategy", "ddp"), ElementsAre("ddp"));
  EXPECT_THAT(Values(kCap, "null,25"), ElementsAre("null", "25"));
  EXPECT_THAT(Values("plan.ddp.no_sync", "true,false"), ElementsAre("true", "false"));
  EXPECT_THAT(Values("plan.ddp.bucket_cap_mb_list", "[[1, 25], [1]]"),
              ElementsAre("[1, 25]", "[1]"));
  EXPECT_THAT(Values("network", "{base: ethernet-10g, nics_per_node: 2},ethernet-25g"),
              ElementsAre("{\"base\": \"ethernet-10g\", \"nics_per_node\": 2}", "ethernet-25g"));
}

TEST(Axis, ValuesAreSeenByFiltersAndRows) {
  const Place place{"--vary", 0, 0};
  const Axis memory = ReadAxis(kMemory, place, VaryNode("80GiB", place));
  EXPECT_EQ(memory.values[0].value, ConditionValue(85899345920.0));
  EXPECT_EQ(memory.values[0].json, "\"80GiB\"");
  const Axis cap = ReadAxis(kCap, place, VaryNode("2.50,null", place));
  EXPECT_EQ(cap.values[0].json, "2.5");
  EXPECT_EQ(cap.values[1].json, "null");
  EXPECT_EQ(cap.values[1].value, ConditionValue());
}

TEST(Axis, WrongValuesAreNamed) {
  EXPECT_THAT(ErrorOf(kCap, ""), HasSubstr("found nothing"));
  EXPECT_THAT(ErrorOf(kCap, "1,,2"), HasSubstr("found nothing between commas"));
  EXPECT_THAT(ErrorOf(kCap, "[]"), HasSubstr("found no value"));
  EXPECT_THAT(ErrorOf(kCap, "0"), HasSubstr("found '0'"));
  EXPECT_THAT(ErrorOf(kCap, "abc"), HasSubstr("found 'abc'"));
  EXPECT_THAT(ErrorOf("plan.ddp.bucket_cap", "1"), HasSubstr("did you mean"));
  EXPECT_THAT(ErrorOf("parallel.data.bucket_cap_mb", "1"), HasSubstr("'plan.ddp.bucket_cap_mb'?"));
  EXPECT_THAT(ErrorOf("plan", "1"), HasSubstr("found no field 'plan' but several in it"));
  EXPECT_THAT(ErrorOf("plan.ddp", "1"), HasSubstr("such as plan.ddp."));
  EXPECT_THAT(ErrorOf("nodes", "1:"), HasSubstr("START:END:xFACTOR"));
  EXPECT_THAT(ErrorOf("nodes", "1:8:"), HasSubstr("START:END:xFACTOR"));
  EXPECT_THAT(ErrorOf(kCap, "1:8"), HasSubstr("START:END:xFACTOR"));
  EXPECT_THAT(ErrorOf(kCap, "1:8:x"), HasSubstr("factor"));
  EXPECT_THAT(ErrorOf("nodes", "1:8:x1.5"), HasSubstr("whole numbers"));
}

TEST(Axis, RangesThatNeverEndAreNamed) {
  for (const char* text :
       {"1:8:x1", "1:8:x0.5", "8:1:x2", "1:8:+0", "8:1:+1", "1:8:-1", "1:8:x-2"}) {
    EXPECT_THAT(ErrorOf("nodes", text), HasSubstr("never reaches its end")) << text;
  }
  EXPECT_THAT(ErrorOf(kCap, "1:1e8:+1"), HasSubstr("more than 10000000 values"));
  EXPECT_THAT(ErrorOf("nodes", "1:64:x1.0000000001"), HasSubstr("more than 10000000 values"));
  EXPECT_THAT(ErrorOf(kCap, "1:1e9:x1.0000000001"), HasSubstr("more than 10000000 values"));
}

}  // namespace
}  // namespace stepsim
