// The lesson everybody learns with, from configs/jobs/lesson_*.yaml: a 7B model, 14 GB of bf16
// gradients, one flat ring at 150 GB/s, 50 ms of forward and 100 ms of backward in 100 layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/run_step.h"
#include "tests/support/shipped.h"

namespace stepsim {
namespace {

constexpr double kRanks = 4096;
constexpr double kGradients = 14e9;  // bytes: 7e9 parameters x 2
constexpr double kRing = 150e9;      // bytes per second
constexpr double kForward = 50e-3;
constexpr double kBackward = 100e-3;
constexpr double kLayers = 100;
constexpr double kReduce = 2 * (kRanks - 1) / kRanks * kGradients / kRing;  // 186.6 ms
// Moving a layer's gradient into its bucket reads and writes 140 MB at the lesson's 10^18 B/s.
constexpr double kCopy = 2 * kGradients / kLayers / 1e18;  // 280 ps

StepReport RunLesson(const std::string& lesson, const std::vector<std::string>& sets = {}) {
  StepReport report = RunStep(testing::LoadShipped(lesson, sets)).report;
  testing::ExpectIdentity(report);
  return report;
}

// Every duration is rounded up to a picosecond: forward, two halves of backward, copy and
// all_reduce of each layer.
constexpr double kRounding = 5 * kLayers * 1e-12;

double BytesOnTheWire(const StepReport& report) {
  double bytes = 0;
  for (const CollectiveReport& c : report.collectives) {
    const auto n = static_cast<double>(c.group_size);
    bytes += ToDouble(c.bytes) * 2 * (n - 1) / n;
  }
  return bytes;
}

TEST(Lessons, ConstantsAreTheKnownOnes) {
  EXPECT_EQ(std::round(kReduce * 1e4) / 10, 186.6);                         // ms
  EXPECT_EQ(std::round((kBackward + kReduce) * 1e3), 287);                  // ms
  EXPECT_EQ(std::round(2 * (kRanks - 1) / kRanks * kGradients / 1e9), 28);  // GB
}

TEST(Lessons, EachRankSendsTwiceTheGradients) {
  const double expected = 2 * (kRanks - 1) / kRanks * kGradients;
  EXPECT_DOUBLE_EQ(BytesOnTheWire(RunLesson("lesson_serial")), expected);
  EXPECT_DOUBLE_EQ(BytesOnTheWire(RunLesson("lesson_bucketed")), expected);
}

// One bucket: nothing overlaps, 100 + 186.6 ms.
TEST(Lessons, SerialAddsUp) {
  const StepReport report = RunLesson("lesson_serial");
  ASSERT_EQ(report.collectives.size(), 1u);
  EXPECT_NEAR(ToSeconds(report.collectives[0].end - report.collectives[0].start), kReduce,
              kRounding);
  EXPECT_NEAR(ToSeconds(report.account().exposed_total()), kReduce, kRounding);
  EXPECT_NEAR(report.step_time_s() - kForward, kBackward + kReduce + kLayers * kCopy, kRounding);
}

// A layer is a bucket (140 MB are above both limits, 1 and 25 MiB). Its all_reduce takes 1.87 ms, a
// layer's backward 1 ms: from the first one on the ring never rests. The head before it is the
// backward of one layer, 100 ms / 100, and its copy.
TEST(Lessons, BucketedIsTheLongerOfTheTwoAndAHead) {
  const StepReport report = RunLesson("lesson_bucketed");
  const double head = kBackward / kLayers + kCopy;
  ASSERT_EQ(report.collectives.size(), 100u);
  EXPECT_NEAR(ToSeconds(report.collectives[0].start) - kForward, head, kRounding);
  EXPECT_NEAR(report.step_time_s() - kForward, std::max(kBackward, kReduce) + head, kRounding);
  EXPECT_NEAR(ToSeconds(report.account().communication), kReduce, kRounding);
}

// Four times the bandwidth: now backward is the longer one, and what is left to see is the tail,
// the last layer's all_reduce of 46.7 ms / 100.
TEST(Lessons, FastRingLeavesTheTail) {
  const StepReport report =
      RunLesson("lesson_bucketed", {"hardware.intra_node.bandwidth=600 GB/s"});
  const double tail = kReduce / 4 / kLayers;
  EXPECT_NEAR(ToSeconds(report.account().exposed_total()), tail, kRounding);
  EXPECT_NEAR(report.step_time_s() - kForward,
              std::max(kBackward, kReduce / 4) + kLayers * kCopy + tail, kRounding);
}

}  // namespace
}  // namespace stepsim
