// Which sizes does a text mean, and what is said of a text that means none?
#include "tools/stepsim/size_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kPetabyte = 1'000'000'000'000'000;

std::vector<std::int64_t> Sizes(const std::string& text) {
  Diagnostics diagnostics;
  auto values = ParseRange(text, {"--bytes", Unit::kBytes, kPetabyte}, diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << diagnostics.list().front().ToString();
  return values;
}

std::string ErrorOf(const std::string& text, const RangeRule& rule) {
  Diagnostics diagnostics;
  EXPECT_THAT(ParseRange(text, rule, diagnostics), IsEmpty());
  if (diagnostics.list().size() != 1) return "not one message";
  EXPECT_THAT(diagnostics.list().front().place.file, HasSubstr(rule.option));
  return diagnostics.list().front().message;
}
std::string SizeError(const std::string& text) {
  return ErrorOf(text, {"--bytes", Unit::kBytes, kPetabyte});
}
std::string CountError(const std::string& text) {
  return ErrorOf(text, {"--m", Unit::kNone, 1'000'000'000});
}

TEST(SizeRange, ReadsOneValueAndLists) {
  EXPECT_THAT(Sizes("8 KiB"), ElementsAre(8192));
  EXPECT_THAT(Sizes("1MiB, 1MB,16B"), ElementsAre(1 << 20, 1'000'000, 16));
}

TEST(SizeRange, Multiplies) {
  EXPECT_THAT(Sizes("1KiB:8KiB:x2"), ElementsAre(1024, 2048, 4096, 8192));
  EXPECT_THAT(Sizes("1KiB:8KiB"), ElementsAre(1024, 2048, 4096, 8192));
  EXPECT_THAT(Sizes("1KiB:9KiB:x4"), ElementsAre(1024, 4096));  // the end need not be met
  EXPECT_THAT(Sizes("1KiB:8GiB:x2"), SizeIs(24));               // 2^10 to 2^33
  EXPECT_THAT(Sizes("4B:9B:x1.5"), ElementsAre(4, 6, 9));
  EXPECT_THAT(Sizes("1B:3B:x1.1"), ElementsAre(1, 2, 3));  // rounded, each once
}

TEST(SizeRange, Adds) {
  EXPECT_THAT(Sizes("64MB:256MB:+64MB"),
              ElementsAre(64'000'000, 128'000'000, 192'000'000, 256'000'000));
  EXPECT_THAT(Sizes("1KiB:3000B:+1KiB"), ElementsAre(1024, 2048));
  EXPECT_THAT(Sizes("1KiB:1KiB:+1KiB"), ElementsAre(1024));
}

TEST(SizeRange, ListsMayHoldRanges) {
  EXPECT_THAT(Sizes("1B, 4B:8B:x2, 100B"), ElementsAre(1, 4, 8, 100));
}

TEST(SizeRange, CountsHaveNoUnit) {
  Diagnostics diagnostics;
  const RangeRule rule{"--m", Unit::kNone, 1'000'000};
  EXPECT_THAT(ParseRange("1024:8192:+1024", rule, diagnostics), SizeIs(8));
  EXPECT_THAT(ParseRange("1024:4096:x2, 1_000", rule, diagnostics),
              ElementsAre(1024, 2048, 4096, 1000));
  EXPECT_TRUE(diagnostics.empty());
}

TEST(SizeRange, ASizeNeedsItsUnit) {
  EXPECT_THAT(SizeError("1024"), HasSubstr("for example '25 MiB'"));
  EXPECT_THAT(SizeError("8:128M:x2"), HasSubstr("allowed: a size with its unit"));
}

TEST(SizeRange, RefusesWhatIsNoAmount) {
  EXPECT_THAT(SizeError("0B"), HasSubstr("from 1 to 1.00 PB"));
  EXPECT_THAT(SizeError("-1 KiB"), HasSubstr("'-1 KiB'"));
  EXPECT_THAT(SizeError("0.5B"), HasSubstr("a whole number of bytes"));
  EXPECT_THAT(SizeError("2000 TB"), HasSubstr("from 1 to"));
  EXPECT_THAT(SizeError("1e400 TB"), HasSubstr("1e400"));
  EXPECT_THAT(SizeError("nan B"), HasSubstr("nan"));
  EXPECT_THAT(CountError("1e300"), HasSubstr("from 1 to 1000000000"));
  EXPECT_THAT(CountError("9223372036854775808"), HasSubstr("from 1 to 1000000000"));
  EXPECT_THAT(CountError("0"), HasSubstr("found '0'"));
}

TEST(SizeRange, RefusesBrokenRanges) {
  EXPECT_THAT(SizeError(""), HasSubstr("found nothing where a value should be"));
  EXPECT_THAT(SizeError("1KiB,,2KiB"), HasSubstr("found nothing"));
  EXPECT_THAT(SizeError("1KiB:"), HasSubstr("found nothing"));
  EXPECT_THAT(SizeError("8KiB:1KiB"), HasSubstr("ends where it begins or above"));
  EXPECT_THAT(SizeError("1KiB:2KiB:x2:3"), HasSubstr("found 4 parts"));
  EXPECT_THAT(SizeError("1KiB:2KiB:2"), HasSubstr("found step '2', allowed: a factor above 1"));
  EXPECT_THAT(SizeError("1KiB:2KiB:x1"), HasSubstr("found step 'x1'"));
  EXPECT_THAT(SizeError("1KiB:2KiB:xinf"), HasSubstr("found step 'xinf'"));
  EXPECT_THAT(SizeError("1KiB:2KiB:+0B"), HasSubstr("found '0B'"));
}

// Neither the number of points nor the time to find it out may grow with the text.
TEST(SizeRange, RefusesMorePointsThanAnyoneReads) {
  EXPECT_THAT(Sizes("1B:10000B:+1B"), SizeIs(kMostRangePoints));
  EXPECT_THAT(SizeError("1B:10001B:+1B"), HasSubstr("found more than 10000 sizes"));
  EXPECT_THAT(SizeError("1B:1000TB:+1B"), HasSubstr("found more than 10000 sizes"));
  EXPECT_THAT(SizeError("1B:1000TB:x1.0000000001"), HasSubstr("found more than 10000 sizes"));
}

}  // namespace
}  // namespace stepsim
