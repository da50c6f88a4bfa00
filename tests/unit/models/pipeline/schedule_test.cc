// The table of schedules: names, shapes that are refused, where stages live.
#include "models/pipeline/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/base/check.h"

namespace stepsim {
namespace {

using ::testing::ElementsAre;

std::string_view NameOf(std::string_view name) {
  const ScheduleRow* row = FindSchedule(name);
  return row == nullptr ? "" : row->name;
}

// Class names of torch.distributed.pipelining, and what papers and sail-sg say.
TEST(ScheduleTest, FrameworksNames) {
  EXPECT_EQ(NameOf("ScheduleGPipe"), "gpipe");
  EXPECT_EQ(NameOf("Schedule1F1B"), "1f1b");
  EXPECT_EQ(NameOf("ScheduleInterleaved1F1B"), "interleaved_1f1b");
  EXPECT_EQ(NameOf("Interleaved1F1B"), "interleaved_1f1b");
  EXPECT_EQ(NameOf("ScheduleLoopedBFS"), "looped_bfs");
  EXPECT_EQ(NameOf("ScheduleInterleavedZeroBubble"), "zb1p");
  EXPECT_EQ(NameOf("ScheduleZBVZeroBubble"), "zbv");
  EXPECT_EQ(NameOf("ScheduleDualPipeV"), "dualpipev");
  EXPECT_EQ(NameOf("DualPipe"), "dualpipe");
  EXPECT_EQ(NameOf("ZB-H1"), "zb1p");
  EXPECT_EQ(NameOf("ZB-H2"), "zb2p");
  EXPECT_EQ(NameOf("V-Half"), "v_half");
  EXPECT_EQ(NameOf(""), "");
  EXPECT_EQ(NameOf("schedule"), "");
  EXPECT_EQ(NameOf("zbw"), "");
}

// Interleaving with one more forward in the warm-up, 2(p-r-1) + (v-1)g + 1, as Megatron-LM has it
// with overlap_moe_expert_parallel_comm; joined passes in parentheses.
TEST(ScheduleTest, PairedInterleaving) {
  const PipelineSchedule s =
      FindSchedule(kMegatronPaired)->Make({.ranks = 2, .chunks = 2, .microbatches = 4});
  const auto text = [&](std::size_t rank) {
    std::string all;
    for (const Action& action : s.ranks[rank]) {
      all += (action.overlaps_previous ? "+" : " ") + ToString(action);
    }
    return all;
  };
  EXPECT_EQ(text(0), " 0F0 0F1 2F0 2F1 0F2 0F3+2B0 2F2+2B1 2F3+0B0 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(text(1), " 1F0 1F1 3F0 3F1+3B0 1F2+3B1 1F3+1B0 3F2+1B1 3F3+3B2 3B3 1B2 1B3");
}

TEST(ScheduleTest, EveryNameAndAliasMeansOneSchedule) {
  for (const ScheduleRow& row : Schedules()) {
    EXPECT_EQ(NameOf(row.name), row.name);
    for (const std::string_view alias : row.aliases) {
      if (alias.empty()) continue;
      EXPECT_EQ(NameOf(alias), row.name) << alias;
    }
  }
}

std::string Problem(std::string_view name, const ScheduleShape& shape) {
  return FindSchedule(name)->Problem(shape);
}

TEST(ScheduleTest, RefusesWithTheNearestValues) {
  EXPECT_EQ(Problem("1f1b", {.ranks = 2, .chunks = 2, .microbatches = 4}),
            "1f1b: found 2 virtual chunks per stage, allowed: 1; nearest: 1");
  EXPECT_EQ(Problem("zbv", {.ranks = 2, .chunks = 1, .microbatches = 4}),
            "zbv: found 1 virtual chunks per stage, allowed: 2; nearest: 2");
  // Two rounds of four ranks: PyTorch wants the micro-batches to divide into them.
  EXPECT_EQ(Problem("interleaved_1f1b", {.ranks = 4, .chunks = 2, .microbatches = 9}),
            "interleaved_1f1b: found 9 micro-batches, allowed: a multiple of 2 (of micro-batches / "
            "stages, rounded down); nearest: 8 or 10");
  EXPECT_EQ(
      Problem("megatron_interleaved", {.ranks = 4, .chunks = 2, .microbatches = 10}),
      "megatron_interleaved: found 10 micro-batches, allowed: groups of 4, the last one of at "
      "least 4; nearest: 8 or 12");
  EXPECT_EQ(
      Problem("megatron_interleaved", {.ranks = 4, .chunks = 2, .microbatches = 10, .group = 6}),
      "");
  EXPECT_EQ(
      Problem("megatron_interleaved", {.ranks = 4, .chunks = 2, .microbatches = 8, .group = 3}),
      "megatron_interleaved: found 3 micro-batches per group, allowed: from the number of "
      "stages to that of micro-batches; nearest: 0 or 4");
  EXPECT_EQ(Problem("dualpipe", {.ranks = 3, .chunks = 1, .microbatches = 8}),
            "dualpipe: found 3 stages, allowed: an even number; nearest: 2 or 4");
  EXPECT_EQ(Problem("dualpipe", {.ranks = 4, .chunks = 1, .microbatches = 7}),
            "dualpipe: found 7 micro-batches, allowed: an even number from 8 (twice the stages); "
            "nearest: 8");
  EXPECT_EQ(Problem("1f1b", {.ranks = 0, .chunks = 1, .microbatches = 7}),
            "1f1b: found 0 stages, allowed: from 1 to 4096; nearest: 1");
  EXPECT_EQ(Problem("1f1b", {.ranks = 4, .chunks = 1, .microbatches = 7, .group = 4}),
            "1f1b: found 4 micro-batches per group, allowed: 0 (only megatron_interleaved has "
            "groups); nearest: 0");
}

TEST(ScheduleTest, RefusesWhatIsTooLarge) {
  EXPECT_EQ(Problem("gpipe", {.ranks = 4096, .chunks = 1, .microbatches = 65536}),
            "gpipe: found 65536 micro-batches, allowed: at most 1024 with so many stages; nearest: "
            "1024");
  EXPECT_THROW(FindSchedule("gpipe")->Make({.ranks = -1}), InternalError);
}

TEST(ScheduleTest, WhereStagesLive) {
  const PipelineSchedule loop{"", {.ranks = 2, .chunks = 3, .microbatches = 4}};
  EXPECT_EQ(loop.stages(), 6);
  EXPECT_THAT(loop.StagesOf(1), ElementsAre(1, 3, 5));
  EXPECT_EQ(loop.RankOf(4, 0), 0);
  const PipelineSchedule v{"", {.ranks = 2, .chunks = 2, .microbatches = 4}, StagePlacement::kV};
  EXPECT_THAT(v.StagesOf(0), ElementsAre(0, 3));
  EXPECT_EQ(v.RankOf(2, 0), 1);
  const PipelineSchedule both{
      "", {.ranks = 4, .chunks = 1, .microbatches = 4}, StagePlacement::kBidirectional};
  EXPECT_EQ(both.stages(), 4);
  EXPECT_THAT(both.StagesOf(3), ElementsAre(0, 3));
  EXPECT_EQ(both.RankOf(0, 1), 0);
  EXPECT_EQ(both.RankOf(0, 2), 3);
}

}  // namespace
}  // namespace stepsim
