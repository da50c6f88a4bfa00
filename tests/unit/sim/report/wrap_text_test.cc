#include "sim/report/wrap_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepsim {
namespace {

using ::testing::ElementsAre;

TEST(ShortenText, CutsBetweenCharactersAndTakesControlCharactersAway) {
  EXPECT_EQ(ShortenText("short", 5), "short");
  EXPECT_EQ(ShortenText("longer", 5), "lo...");
  EXPECT_EQ(ShortenText("\xc3\xbc\xc3\xbc\xc3\xbc", 6), "\xc3\xbc\xc3\xbc\xc3\xbc");
  EXPECT_EQ(ShortenText("\xc3\xbc\xc3\xbc\xc3\xbcx", 6), "\xc3\xbc...");  // not half of one
  EXPECT_EQ(ShortenText("a\033[1m\tb", 20), "a [1m b");
}

TEST(WrapText, BreaksBetweenWords) {
  EXPECT_THAT(WrapText("one two three", 7, 9), ElementsAre("one two", "three"));
  EXPECT_THAT(WrapText("one two three", 6, 9), ElementsAre("one", "two", "three"));
  EXPECT_THAT(WrapText("one two three", 7, 1), ElementsAre("one ..."));
  EXPECT_THAT(WrapText("abcdefgh", 3, 9), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(WrapText("", 3, 9), ElementsAre());
}

TEST(WrapText, KeepsANumberWithItsUnit) {
  EXPECT_THAT(WrapText("queued 73.1 ms behind", 12, 9), ElementsAre("queued", "73.1 ms", "behind"));
  EXPECT_THAT(WrapText("bucket 13/13 (weight)", 12, 9), ElementsAre("bucket 13/13", "(weight)"));
  EXPECT_THAT(WrapText("731 ms", 4, 9), ElementsAre("731", "ms"));  // there is no better place
}

}  // namespace
}  // namespace stepsim
