#include "tools/sweep/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tools/sweep/curve_scale.h"
#include "tools/sweep/sweep_export.h"

namespace stepsim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Rows of a sweep over bucket_cap_mb on two networks, as a result file.
class CurveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        (std::filesystem::temp_directory_path() / (std::string("stepsim_curve_") + info->name()))
            .string();
    header_.sweep = "buckets";
    header_.hash = "1";
    header_.axes = {{"network", "", false}, {"plan.ddp.bucket_cap_mb", "MiB", false}};
    header_.metrics = {"step_time_s", "mfu_palm"};
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void Add(const std::string& network, double cap, double seconds, double mfu) {
    Add(network, cap,
        "\"resolved\":{\"network\":\"" + network + "\",\"plan.ddp.bucket_cap_mb\":" +
            std::to_string(cap) + "},\"metrics\":{\"step_time_s\":" + std::to_string(seconds) +
            ",\"mfu_palm\":" + std::to_string(mfu) + "},\"warnings\":1");
  }
  void Add(const std::string& network, double cap, const std::string& rest) {
    const std::string label = std::to_string(static_cast<int>(cap));
    rows_ += "{\"index\":" + std::to_string(header_.points++) + ",\"axes\":{\"network\":\"" +
             network + "\",\"plan.ddp.bucket_cap_mb\":" + label + "}," + rest + "}\n";
  }
  // The valley of `slow` is at 50, with 25 and 100 within 1 %; `fast` falls to the end.
  void AddValleys() {
    const double caps[] = {1, 25, 50, 100, 400};
    const double slow[] = {2, 1.008, 1, 1.0099, 1.5};
    const double fast[] = {0.5, 0.4, 0.3, 0.2, 0.1};
    for (int i = 0; i < 5; ++i) Add("slow", caps[i], slow[i], 0.1 * i);
    for (int i = 0; i < 5; ++i) Add("fast", caps[i], fast[i], 0.4 - 0.1 * i);
  }
  SweepResults Results() {
    header_.shard_points = header_.points;
    std::ofstream(path_) << WriteHeader(header_) << rows_;
    return SweepResults({path_});
  }

  std::string path_, rows_;
  ResultHeader header_;
};

TEST_F(CurveTest, FindsBestPointsAndPlateaus) {
  AddValleys();
  const Curve curve = MakeCurve(Results(), {});
  EXPECT_EQ(curve.x, "plan.ddp.bucket_cap_mb");
  EXPECT_EQ(curve.y, "step_time_s");
  ASSERT_EQ(curve.series.size(), 2u);
  const CurveSeries& slow = curve.series[0];
  EXPECT_EQ(slow.name, "slow");
  EXPECT_EQ(slow.points[slow.best].x, 50);
  EXPECT_EQ(slow.points[slow.plateau_begin].x, 25);
  EXPECT_EQ(slow.points[slow.plateau_end].x, 100);
  const CurveSeries& fast = curve.series[1];
  EXPECT_EQ(fast.points[fast.best].x, 400);
  EXPECT_EQ(fast.plateau_begin, fast.best);
  EXPECT_EQ(BestSeries(curve), 1u);
  EXPECT_TRUE(curve.is_log_x);  // factors of 2 to 25, not steps of one width
  EXPECT_TRUE(curve.is_log_y);  // 0.1 to 2
  EXPECT_THAT(
      DescribeCurve(curve),
      HasSubstr("slow: best 1.00 s at bucket_cap_mb 50 MiB; within 1 % from 25 MiB to 100 MiB"));
}

TEST_F(CurveTest, MoreMfuIsBetter) {
  AddValleys();
  const Curve curve = MakeCurve(Results(), {"", "mfu_palm", {}});
  EXPECT_EQ(curve.series[0].points[curve.series[0].best].x, 400);
  EXPECT_EQ(curve.series[1].points[curve.series[1].best].x, 1);
}

TEST_F(CurveTest, AxesThatAreNotShownGiveTheirBest) {
  AddValleys();
  const Curve curve = MakeCurve(Results(), {"network", "step_time_s", {"network"}});
  ASSERT_EQ(curve.series.size(), 1u);
  ASSERT_EQ(curve.series[0].points.size(), 2u);
  EXPECT_TRUE(curve.has_text_x);
  EXPECT_EQ(curve.series[0].points[0].y, 1);    // the best of slow
  EXPECT_EQ(curve.series[0].points[1].y, 0.1);  // the best of fast
  EXPECT_THAT(curve.best_of, ::testing::ElementsAre("plan.ddp.bucket_cap_mb"));
}

TEST_F(CurveTest, EvenStepsAreNotLogarithmic) {
  for (const int cap : {10, 20, 30, 40}) Add("slow", cap, 1 + cap / 100.0, 0.1);
  const Curve curve = MakeCurve(Results(), {});
  EXPECT_FALSE(curve.is_log_x);
  EXPECT_FALSE(curve.is_log_y);
  EXPECT_DOUBLE_EQ(ScaleX(curve).At(20), 1.0 / 3);
}

TEST_F(CurveTest, ErrorsAndFilteredPointsAreCounted) {
  Add("slow", 1, 1, 0.1);
  Add("slow", 2, "\"error\":{\"kind\":\"input\",\"text\":\"wrong, \\\"x\\\"\"}");
  Add("slow", 3, "\"filtered\":\"nodes > 1\"");
  const SweepResults results = Results();
  const Curve curve = MakeCurve(results, {});
  EXPECT_EQ(curve.errors, 1u);
  EXPECT_EQ(curve.first_error, "wrong, \"x\"");
  EXPECT_EQ(curve.filtered, 1u);
  std::string csv;
  FindSweepFormat("x.csv")->write(results, curve, [&](std::string_view text) { csv += text; });
  EXPECT_EQ(
      csv,
      "index,network,plan.ddp.bucket_cap_mb,step_time_s,mfu_palm,warnings,filtered,error_kind,"
      "error\n"
      "0,slow,1,1,0.1,1,,,\n"
      "1,slow,2,,,,,input,\"wrong, \"\"x\"\"\"\n"
      "2,slow,3,,,,nodes > 1,,\n");
}

TEST_F(CurveTest, UnknownNamesAreNamed) {
  AddValleys();
  const SweepResults results = Results();
  const auto error = [&](const CurveSpec& spec) -> std::string {
    try {
      MakeCurve(results, spec);
    } catch (const ConfigError& e) {
      return e.diagnostics().front().ToString();
    }
    return "";
  };
  EXPECT_THAT(error({"nodes", "", {}}), HasSubstr("allowed: network, plan.ddp.bucket_cap_mb"));
  EXPECT_THAT(error({"", "step_time", {}}), HasSubstr("did you mean 'step_time_s'?"));
  EXPECT_THAT(error({"", "", {"netwrok"}}), HasSubstr("did you mean 'network'?"));
}

TEST_F(CurveTest, PlotsFitTheirWidthAndNameEachCurve) {
  AddValleys();
  const Curve curve = MakeCurve(Results(), {});
  for (const std::size_t width : {0u, 40u, 80u, 1000u}) {
    const std::string plot = PlotCurve(curve, width);
    EXPECT_THAT(plot, HasSubstr("a slow"));
    EXPECT_THAT(plot, HasSubstr("b fast"));
    std::size_t columns = 0, longest = 0;  // characters, not bytes
    for (const char c : plot) {
      if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++columns;
      if (c == '\n') longest = std::max(longest, std::exchange(columns, 0) - 1);
    }
    EXPECT_LE(longest, std::max<std::size_t>(width, 45));
  }
}

TEST_F(CurveTest, SvgEscapesNames) {
  header_.sweep = "a < b & c";
  AddValleys();
  const std::string svg = CurveSvg(MakeCurve(Results(), {}));
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("best 1.00 s at 50 MiB"));
}

// One point, and a metric that is zero everywhere, still make a picture.
TEST_F(CurveTest, FlatCurvesHaveNoNan) {
  Add("slow", 25, 0, 0);
  const Curve curve = MakeCurve(Results(), {});
  EXPECT_THAT(CurveSvg(curve), Not(HasSubstr("nan")));
  EXPECT_THAT(PlotCurve(curve, 80), HasSubstr("*"));
}

// Values that differ in rounding alone are one: no axis is as wide as that.
TEST_F(CurveTest, ValuesOneBitApartAreDrawnAsOne) {
  Curve curve;
  curve.series.emplace_back();
  const double x = 25, y = 1;
  curve.series[0].points = {{x, "25", y}, {std::nextafter(x, 30), "25", std::nextafter(y, 2)}};
  for (const bool is_log : {false, true}) {
    curve.is_log_x = curve.is_log_y = is_log;
    for (const Scale& scale : {ScaleX(curve), ScaleY(curve)}) {
      EXPECT_GT(scale.high - scale.low, 0.5);
    }
    const std::vector<Tick> ticks = TicksY(curve, ScaleY(curve), 6);
    EXPECT_FALSE(ticks.empty());
    EXPECT_LE(ticks.size(), 20u);
    EXPECT_THAT(CurveSvg(curve), Not(HasSubstr("nan")));
    EXPECT_THAT(CurveSvg(curve), Not(HasSubstr("inf")));
  }
}

// Digits are up to 7.7 wide at this size (DejaVu Sans 7.64), and a gap is seen.
TEST_F(CurveTest, LabelsOfTicksDoNotTouch) {
  for (int i = 0; i < 40; ++i) Add("slow", 1000000 + 100000 * i, 1 + i, 0.1);
  const std::string svg = CurveSvg(MakeCurve(Results(), {}));
  std::size_t labels = 0;
  double end = 0;
  const std::regex tick("<text x=\"([0-9.]+)\" y=\"431.0\" text-anchor=\"middle\">([0-9]+)</text>");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tick), none; it != none; ++it, ++labels) {
    const double half = 7.64 * static_cast<double>((*it)[2].length()) / 2;
    EXPECT_GE(std::stod((*it)[1]) - half, end + 4);
    end = std::stod((*it)[1]) + half;
  }
  EXPECT_GE(labels, 5u);
}

TEST_F(CurveTest, RowsWithWrongValuesAreNamedWithTheirLine) {
  AddValleys();
  const std::size_t third = rows_.find("\"index\":2");
  rows_.replace(rows_.find("\"step_time_s\":", third) + 14, 1, "\"x\",\"y\":");
  const SweepResults results = Results();
  try {
    MakeCurve(results, {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().front().ToString(),
              path_ + ":4:1: found a broken row, allowed: rows as they were written");
  }
}

TEST_F(CurveTest, MissingAndForeignShardsAreNamed) {
  AddValleys();
  header_.shard = {2, 4};
  const auto error = [&](const std::vector<std::string>& paths) -> std::string {
    try {
      SweepResults results(paths);
    } catch (const ConfigError& e) {
      return e.diagnostics().front().ToString();
    }
    return "";
  };
  header_.shard_points = header_.points;
  std::ofstream(path_) << WriteHeader(header_) << rows_;
  EXPECT_THAT(error({path_}), HasSubstr("found 1 of 4 shards, missing: 1, 3-4"));
  EXPECT_THAT(error({path_, path_}), HasSubstr("found shard 2/4 again"));
  EXPECT_THAT(error({path_ + ".none"}), HasSubstr("found no such file"));
  header_.shard_points = ++header_.points;
  std::ofstream(path_) << WriteHeader(header_) << rows_;
  EXPECT_THAT(error({path_}), HasSubstr("found 10 of 11 points"));
  std::ofstream(path_) << "{\"schema\":\"stepsim.result/1\"}\n";
  EXPECT_THAT(error({path_}), HasSubstr("found the schema 'stepsim.result/1'"));
}

}  // namespace
}  // namespace stepsim
