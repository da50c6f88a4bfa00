// What holds for every schedule over every shape that it admits, up to 16 ranks, 4 chunks and 64
// micro-batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/pipeline/check_schedule.h"
#include "models/pipeline/lowering.h"
#include "models/pipeline/replay.h"
#include "models/pipeline/schedule.h"

namespace stepsim {
namespace {

constexpr ChunkTimes kEqual;                   // F = I = W
constexpr ChunkTimes kLongInput{1, 1.5, 0.5};  // the other triples of the recorded replays
constexpr ChunkTimes kScaled{2, 3, 1};

template <class Visit>
void ForEachShape(const ScheduleRow& row, Visit visit) {
  for (std::int32_t p = 1; p <= 16; ++p) {
    for (std::int32_t v = 1; v <= 4; ++v) {
      for (std::int32_t m = 1; m <= 64; ++m) {
        const ScheduleShape shape{p, v, m};
        if (row.Problem(shape).empty()) visit(shape);
      }
    }
  }
}

std::string Describe(const ScheduleRow& row, const ScheduleShape& shape) {
  return std::string(row.name) + " p " + std::to_string(shape.ranks) + " v " +
         std::to_string(shape.chunks) + " m " + std::to_string(shape.microbatches) + " g " +
         std::to_string(shape.group);
}

void ExpectSound(const ScheduleRow& row, const ScheduleShape& shape) {
  const PipelineSchedule schedule = row.Make(shape);
  ASSERT_TRUE(InvalidActions(schedule).empty())
      << Describe(row, shape) << ": " << InvalidActions(schedule).front().message;
  ASSERT_EQ(WaitCycle(schedule), "") << Describe(row, shape);
  const ScheduleReplay replay = Replay(schedule, kLongInput);
  ASSERT_TRUE(IsWorkConserving(schedule, replay)) << Describe(row, shape);
}

class ClosedForms : public ::testing::TestWithParam<const ScheduleRow*> {};

TEST_P(ClosedForms, AreTheReplaysIdleTime) {
  std::size_t compared = 0;
  ForEachShape(*GetParam(), [&](const ScheduleShape& shape) {
    // The triples of the recorded replays, and others.
    for (const ChunkTimes& times :
         {kEqual, kLongInput, kScaled, ChunkTimes{3, 1, 2}, ChunkTimes{2, 2, 1},
          ChunkTimes{2, 3, 2}, ChunkTimes{1, 4, 3}, ChunkTimes{1, 2, 3}}) {
      const auto expected = GetParam()->idle(shape, times);
      if (!expected) continue;
      ++compared;
      for (const RankReplay& rank : Replay(GetParam()->Make(shape), times).ranks) {
        ASSERT_NEAR(rank.idle, *expected, 1e-9)
            << Describe(*GetParam(), shape) << " tI " << times.input_gradient;
      }
    }
  });
  EXPECT_GT(compared, 0u);
}

class EverySchedule : public ::testing::TestWithParam<const ScheduleRow*> {};

TEST_P(EverySchedule, IsValidFreeOfDeadlockAndWorkConserving) {
  ForEachShape(*GetParam(), [](const ScheduleShape& shape) { ExpectSound(*GetParam(), shape); });
}

// Every transfer that crosses ranks is sent once and received once, each receive before its use; a
// stage's gradients are reduced once and its parameters gathered before and freed after their use.
TEST_P(EverySchedule, IsLoweredCompletely) {
  ForEachShape(*GetParam(), [](const ScheduleShape& shape) {
    if (shape.microbatches % 7 != 1) return;
    const PipelineSchedule schedule = GetParam()->Make(shape);
    const PipelineSchedule lowered = Lower(schedule);
    EXPECT_EQ(ComputeOnly(lowered).ranks, schedule.ranks) << Describe(*GetParam(), shape);
    std::int64_t crossing = 0, sends = 0, receives = 0, reductions = 0, gathered = 0;
    for (std::int32_t stage = 0; stage + 1 < schedule.stages(); ++stage) {
      for (std::int32_t mb = 0; mb < shape.microbatches; ++mb) {
        crossing += schedule.RankOf(stage, mb) == schedule.RankOf(stage + 1, mb) ? 0 : 2;
      }
    }
    for (const std::vector<Action>& actions : lowered.ranks) {
      for (const Action& a : actions) {
        sends += a.kind == ActionKind::kSendForward || a.kind == ActionKind::kSendBackward;
        receives += a.kind == ActionKind::kRecvForward || a.kind == ActionKind::kRecvBackward;
        reductions += a.kind == ActionKind::kReduceGrad;
        gathered += a.kind == ActionKind::kUnshard;
        gathered -= a.kind == ActionKind::kReshard;
      }
    }
    EXPECT_EQ(sends, crossing) << Describe(*GetParam(), shape);
    EXPECT_EQ(receives, crossing);
    const bool is_doubled = schedule.placement == StagePlacement::kBidirectional;
    EXPECT_EQ(reductions, schedule.stages() * (is_doubled ? 2 : 1));
    EXPECT_EQ(gathered, 0);
  });
}

std::vector<const ScheduleRow*> SchedulesWhere(bool (*holds)(const ScheduleRow&)) {
  std::vector<const ScheduleRow*> rows;
  for (const ScheduleRow& row : Schedules()) {
    if (holds(row)) rows.push_back(&row);
  }
  return rows;
}
std::string NameOf(const ::testing::TestParamInfo<const ScheduleRow*>& row) {
  return "Is_" + std::string(row.param->name);
}
INSTANTIATE_TEST_SUITE_P(
    Schedules, EverySchedule,
    ::testing::ValuesIn(SchedulesWhere([](const ScheduleRow&) { return true; })), NameOf);
INSTANTIATE_TEST_SUITE_P(Schedules, ClosedForms,
                         ::testing::ValuesIn(SchedulesWhere([](const ScheduleRow& row) {
                           return row.idle != nullptr;
                         })),
                         NameOf);

// Megatron's groups from p to m.
TEST(PipelinePropertiesTest, MegatronsGroups) {
  const ScheduleRow& row = *FindSchedule("megatron_interleaved");
  for (std::int32_t p = 1; p <= 8; ++p) {
    for (std::int32_t m = p; m <= 32; m += 3) {
      for (std::int32_t g = p; g <= m; ++g) {
        const ScheduleShape shape{p, 2, m, g};
        if (row.Problem(shape).empty()) ExpectSound(row, shape);
      }
    }
  }
}

// (m + p - 1)(tF + tB): Huang et al. 2019, Narayanan et al. 2021.
TEST(PipelinePropertiesTest, MakespanOfGPipeAnd1F1B) {
  for (const char* name : {"gpipe", "1f1b"}) {
    ForEachShape(*FindSchedule(name), [&](const ScheduleShape& shape) {
      const ScheduleReplay replay = Replay(FindSchedule(name)->Make(shape), kScaled);
      ASSERT_EQ(replay.makespan, (shape.microbatches + shape.ranks - 1) * (2 + 4));
    });
  }
}

// The bubble of v chunks is that of one chunk over v, in the time of a whole rank's layers.
TEST(PipelinePropertiesTest, InterleavingDividesTheBubble) {
  for (std::int32_t p = 1; p <= 16; ++p) {
    for (std::int32_t v = 1; v <= 4; ++v) {
      const double chunk = 12.0 / v;
      const ScheduleShape shape{p, v, 2 * p};
      const double idle =
          Replay(FindSchedule("interleaved_1f1b")->Make(shape), {chunk, chunk, chunk})
              .ranks[0]
              .idle;
      const double whole =
          Replay(FindSchedule("1f1b")->Make({p, 1, 2 * p}), {12, 12, 12}).ranks[0].idle;
      EXPECT_NEAR(idle, whole / v, 1e-9) << p << " " << v;
    }
  }
}

TEST(PipelinePropertiesTest, InFlightMicrobatchesOf1F1B) {
  ForEachShape(*FindSchedule("1f1b"), [](const ScheduleShape& shape) {
    const ScheduleReplay replay = Replay(FindSchedule("1f1b")->Make(shape));
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      ASSERT_EQ(replay.ranks[static_cast<std::size_t>(rank)].peak_live,
                std::min(shape.microbatches, shape.ranks - rank));
    }
  });
}

// Qi et al. 2023 and 2024, at F = I = W and enough micro-batches: no hole inside a rank's own span;
// memory of ZB-1P as 1F1B's first rank (p), of ZB-2P twice that, of ZB-V 2p chunks of half the
// size.
TEST(PipelinePropertiesTest, ZeroBubbleAtEqualTimes) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    const std::int32_t m = 4 * p;
    for (const char* name : {"zb2p", "zbv", "zbv_sail"}) {
      const ScheduleRow& row = *FindSchedule(name);
      const ScheduleReplay replay = Replay(row.Make({p, row.default_chunks, m}));
      EXPECT_EQ(replay.longest_span(), 3 * m * row.default_chunks) << name << " " << p;
      for (const RankReplay& rank : replay.ranks) EXPECT_LE(rank.peak_live, 2 * p) << name;
    }
    for (const RankReplay& rank : Replay(FindSchedule("zb1p")->Make({p, 1, m})).ranks) {
      EXPECT_EQ(rank.peak_live, p);
      EXPECT_EQ(rank.idle, p - 1);
    }
  }
}

// Qi et al. 2024, table 1: peak memory of V-Half a half and of V-Min a third of 1F1B's, up to a
// constant, for about half and two thirds of its bubble. 1F1B in the same unit: 2p chunks stored
// and 6(p-1) idle.
TEST(PipelinePropertiesTest, VHalfAndVMinTradeMemoryForBubble) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    const ScheduleReplay half = Replay(FindSchedule("v_half")->Make({p, 2, 4 * p}));
    const ScheduleReplay min = Replay(FindSchedule("v_min")->Make({p, 2, 4 * p}));
    const double bubble = 6.0 * (p - 1);
    for (const RankReplay& rank : half.ranks) EXPECT_LE(rank.peak_live, p + 2);
    for (const RankReplay& rank : min.ranks) EXPECT_LE(rank.peak_live, 2 * p / 3 + 3);
    EXPECT_LE(half.longest_span() - 24 * p, 0.6 * bubble) << p;
    EXPECT_LE(min.longest_span() - 24 * p, 2.0 / 3 * bubble) << p;
  }
}

}  // namespace
}  // namespace stepsim
