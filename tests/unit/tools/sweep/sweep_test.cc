#include "tools/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/config/read_config.h"
#include "tools/sweep/grid.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sweep Read(const std::string& text) {
  return WithOptions(ReadSweep(ReadConfig(text, "s.yaml"), "configs/sweeps/s.yaml", {}), {});
}

std::string ErrorOf(const std::string& text) {
  try {
    const Sweep sweep = Read(text);
    const Grid grid(sweep);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    return error.diagnostics().front().ToString();
  }
  return "";
}

// "1 ddp" of each point that is left.
std::vector<std::string> Points(const Sweep& sweep, const Shard& shard = {}) {
  const Grid grid(sweep);
  PointSequence sequence(grid, shard);
  std::vector<std::string> points;
  while (const auto index = sequence.Next()) {
    std::string text;
    for (const AxisValue* value : grid.ValuesOf(*index))
      text += (text.empty() ? "" : " ") + value->set;
    points.push_back(text);
  }
  return points;
}

TEST(Sweep, TheLastAxisRunsFastest) {
  EXPECT_THAT(Points(Read("axes: {nodes: [1, 2], plan.strategy: [ddp, fsdp2]}")),
              ElementsAre("1 ddp", "1 fsdp2", "2 ddp", "2 fsdp2"));
}

TEST(Sweep, ZippedListsGoTogether) {
  EXPECT_THAT(Points(Read("axes: {plan.strategy: [ddp, fsdp2]}\n"
                          "zip: [{nodes: [1, 2], batch.micro_batch_size: [8, 4]}]")),
              ElementsAre("ddp 1 8", "ddp 2 4", "fsdp2 1 8", "fsdp2 2 4"));
  EXPECT_THAT(ErrorOf("zip: [{nodes: [1, 2, 4], batch.micro_batch_size: [8, 4]}]"),
              HasSubstr("nodes has 3, batch.micro_batch_size has 2, allowed: lists of one length"));
}

TEST(Sweep, FiltersOnAxesLeaveOutPointsBeforeTheyAreRun) {
  const Sweep sweep = Read(
      "axes: {nodes: 1:4:+1, plan.tensor_parallel: [1, 2]}\n"
      "where: [nodes * plan.tensor_parallel <= 4, nodes mod 2 == 0]");
  EXPECT_THAT(Points(sweep), ElementsAre("2 1", "2 2", "4 1"));
  const Grid grid(sweep);
  EXPECT_EQ(grid.size(), 8u);
  EXPECT_EQ(grid.total(), 3u);
}

TEST(Sweep, FiltersThatContradictEachOtherAreNamed) {
  EXPECT_THAT(ErrorOf("axes: {nodes: 1:8:+1}\nwhere: [nodes > 6, nodes < 3]"),
              HasSubstr("no point left of 8, allowed: filters that keep one; 'nodes > 6' alone "
                        "keeps 2, 'nodes < 3' alone keeps 2"));
}

TEST(Sweep, EveryPointIsInOneShard) {
  const Sweep sweep =
      Read("axes: {nodes: 1:23:+1, plan.tensor_parallel: 1:17:+1}\nwhere: nodes != 5");
  const std::vector<std::string> all = Points(sweep);
  ASSERT_EQ(all.size(), 22u * 17);
  for (const std::uint64_t shards : {1, 2, 3, 7, 64, 373, 374, 375, 1000}) {
    std::vector<std::string> joined;
    std::size_t fewest = all.size(), most = 0;
    for (std::uint64_t i = 1; i <= shards; ++i) {
      const std::vector<std::string> part = Points(sweep, {i, shards});
      EXPECT_EQ(part.size(), PointsOfShard(all.size(), {i, shards})) << i << " of " << shards;
      joined.insert(joined.end(), part.begin(), part.end());
      fewest = std::min(fewest, part.size());
      most = std::max(most, part.size());
    }
    EXPECT_THAT(joined, ::testing::UnorderedElementsAreArray(all)) << shards;
    // Shards differ by one turn at most, an eighth of their share.
    EXPECT_LE(most - fewest, std::max<std::size_t>(all.size() / shards / 8, 1)) << shards;
  }
}

TEST(Sweep, ScalarKeysMayBeTextsOrLists) {
  const Sweep sweep = Read(
      "name: a\naxes: {nodes: 1:2:x2, network: [a, b]}\nwhere: nodes > 0\nmetrics: step_time_s\n"
      "curve: {x: nodes, series: network}");
  EXPECT_EQ(sweep.name, "a");
  ASSERT_EQ(sweep.metrics.size(), 1u);
  EXPECT_EQ(sweep.metrics[0].name, "step_time_s");
  EXPECT_EQ(sweep.curve.x, "nodes");
  EXPECT_THAT(sweep.curve.series, ElementsAre("network"));
  EXPECT_EQ(Read("axes: {nodes: 1}").name, "s");  // the file's
}

TEST(Sweep, SetBecomesSettings) {
  const Sweep sweep = Read(
      "axes: {nodes: 1}\nset: {network: 'ethernet-10g', plan.ddp.bucket_cap_mb_list: [1, 25], "
      "plan.ddp.no_sync: false}");
  EXPECT_THAT(sweep.set,
              ElementsAre("network=\"ethernet-10g\"", "plan.ddp.bucket_cap_mb_list=[1, 25]",
                          "plan.ddp.no_sync=false"));
}

TEST(Sweep, OptionsComeOnTopOfTheFile) {
  SweepOptions options;
  options.vary = {"plan.ddp.bucket_cap_mb=1:4:x2"};
  options.where = {"plan.ddp.bucket_cap_mb > 1"};
  const Sweep sweep = WithOptions(Read("axes: {nodes: [1, 2]}"), options);
  EXPECT_THAT(Points(sweep), ElementsAre("1 2", "1 4", "2 2", "2 4"));
}

TEST(Sweep, WrongFilesAreNamed) {
  EXPECT_THAT(ErrorOf("axes: {}"), HasSubstr("axes: found none"));
  EXPECT_THAT(ErrorOf("axes: {nodes: []}"), HasSubstr("nodes: found no value"));
  EXPECT_THAT(ErrorOf("axes: [nodes]"), HasSubstr("axes: found a list"));
  EXPECT_THAT(ErrorOf("job: x"), HasSubstr("found no axis"));
  EXPECT_THAT(ErrorOf("axis: {nodes: 1}\naxes: {nodes: 1}"), HasSubstr("did you mean 'axes'?"));
  EXPECT_THAT(ErrorOf("axes: {node: 1}"), HasSubstr("did you mean 'nodes'?"));
  EXPECT_THAT(ErrorOf("axes: {plan.dp: 1, plan.data_parallel: 2}"),
              HasSubstr("plan.data_parallel: found twice, first at s.yaml:1:8"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1}\nzip: [{nodes: [1]}]"), HasSubstr("nodes: found twice"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1}\nset: {nodes: 2}"), HasSubstr("nodes: found twice"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1}\nwhere: node > 1"), HasSubstr("did you mean 'nodes'?"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1}\nmetrics: step_time"), HasSubstr("'step_time_s'?"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1}\ncurve: {x: gpus_per_node}"), HasSubstr("allowed: nodes"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1}\nmetrics: mfu_palm\ncurve: {y: step_time_s}"),
              HasSubstr("allowed: mfu_palm"));
  EXPECT_THAT(ErrorOf("axes: {nodes: 1:10000:+1, plan.data_parallel: 1:10000:+1}"),
              HasSubstr("10000 x 10000 = 1e+08 points, allowed: at most 10000000"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("allowed: a mapping with job and axes"));
}

}  // namespace
}  // namespace stepsim
