#include "tools/sweep/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace stepsim {
namespace {

using ::testing::HasSubstr;

class ProgressTest : public ::testing::Test {
 protected:
  Progress Make(bool is_terminal, bool is_quiet = false) {
    return Progress(out_, 10'000, 2'000, {is_terminal, is_quiet, [this] { return now_; }});
  }
  std::ostringstream out_;
  double now_ = 100;
};

// 4,000 points in 8 s are 500/s; the 4,000 that are left take as long again.
TEST_F(ProgressTest, SaysRateAndRestOnATerminal) {
  Progress progress = Make(true);
  now_ += 8;
  progress.Advance(4'000);
  EXPECT_EQ(out_.str(), "\r[##################............]  6,000/10,000  500/s  ETA 8.0 s\033[K");
  progress.Finish();
  EXPECT_THAT(out_.str(), HasSubstr("\r\033[K"));
}

TEST_F(ProgressTest, WritesPlainLinesElsewhere) {
  Progress progress = Make(false);
  now_ += 1;
  progress.Advance(1'000);
  EXPECT_EQ(out_.str(), "");  // too early
  now_ += 7;
  progress.Advance(3'000);
  EXPECT_EQ(out_.str(), "6,000 of 10,000 points, 500/s, 8.0 s left\n");
}

TEST_F(ProgressTest, IsQuietWhenAsked) {
  Progress progress = Make(true, true);
  now_ += 100;
  progress.Advance(4'000);
  progress.Finish();
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace stepsim
