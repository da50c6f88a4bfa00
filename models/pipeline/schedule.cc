#include "models/pipeline/schedule.h"

#include <algorithm>
#include <cctype>

#include "models/pipeline/families.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

constexpr auto kLoop = StagePlacement::kLoop;
constexpr auto kV = StagePlacement::kV;

constexpr std::array kSchedules = {
    ScheduleRow{"gpipe",
                "all forwards, then all backwards (GPipe; PyTorch ScheduleGPipe)",
                {},
                kLoop,
                false,
                1,
                OneChunkRule,
                GPipeOrder,
                FlushedIdle,
                "(p-1)(tF+tB)"},
    ScheduleRow{"1f1b",
                "a backward as soon as there is one (Megatron-LM; PyTorch Schedule1F1B)",
                {"one_f_one_b", "PipeDream-Flush"},
                kLoop,
                false,
                1,
                OneChunkRule,
                OneFOneBOrder,
                FlushedIdle,
                "(p-1)(tF+tB)"},
    ScheduleRow{"interleaved_1f1b",
                "1F1B over several chunks per rank (PyTorch)",
                {"interleaved"},
                kLoop,
                false,
                2,
                RoundsRule,
                InterleavedOrder,
                InterleavedIdle,
                "(p-1)(tF+tB) of chunks"},
    ScheduleRow{kMegatronInterleaved,
                "the same with Megatron-LM's microbatch_group_size_per_vp_stage (--group)",
                {"interleaved_megatron", "vpp"},
                kLoop,
                false,
                2,
                MegatronGroupRule,
                MegatronInterleavedOrder,
                InterleavedIdle,
                "(p-1)(tF+tB) of chunks"},
    ScheduleRow{kMegatronPaired,
                "the same with every backward joined to the forward of another micro-batch, one "
                "more of which comes first (plan.expert.overlap_microbatches)",
                {},
                kLoop,
                false,
                2,
                MegatronGroupRule,
                MegatronPairedOrder,
                nullptr,
                ""},
    ScheduleRow{"looped_bfs",
                "every micro-batch through a chunk before the next (PyTorch)",
                {"breadth_first"},
                kLoop,
                false,
                2,
                LoopedRule,
                LoopedBfsOrder,
                InterleavedIdle,
                "(p-1)(tF+tB) of chunks"},
    ScheduleRow{"zb1p",
                "interleaved with a split backward, 1F1B's memory (ZB-H1; PyTorch "
                "ScheduleInterleavedZeroBubble)",
                {"interleaved_zero_bubble", "zb_h1"},
                kLoop,
                true,
                1,
                RoundsRule,
                InterleavedZeroBubbleOrder,
                ZeroBubbleIdle,
                "(p-1)(tF+tI-tW) of chunks"},
    ScheduleRow{"zb2p",
                "split backward, twice 1F1B's memory (ZB-H2, sail-sg's heuristic)",
                {"zb_h2"},
                kLoop,
                true,
                1,
                OneChunkRule,
                Zb2pOrder,
                nullptr,
                ""},
    ScheduleRow{"zbv",
                "split backward, two chunks in a V (ZB-V; PyTorch ScheduleZBVZeroBubble)",
                {"zbv_zero_bubble", "zb_v"},
                kV,
                true,
                2,
                TwoChunksRule,
                ZbvOrder,
                ZbvIdle,
                "(p-1)(tF+tI-tW) of chunks"},
    ScheduleRow{"zbv_sail",
                "ZB-V as sail-sg's scheduler orders it for equal times",
                {},
                kV,
                true,
                2,
                TwoChunksRule,
                SailZbvOrder,
                ZbvIdle,
                "(p-1)(tF+tI-tW) of chunks"},
    ScheduleRow{"v_half",
                "ZB-V's placement with half its memory and a larger bubble (sail-sg)",
                {},
                kV,
                true,
                2,
                SlotPlanRule,
                VHalfOrder,
                nullptr,
                ""},
    ScheduleRow{"v_min",
                "ZB-V's placement with a third of its memory and a still larger bubble (sail-sg)",
                {},
                kV,
                true,
                2,
                SlotPlanRule,
                VMinOrder,
                nullptr,
                ""},
    ScheduleRow{"dualpipe",
                "two copies of the model in opposite directions (DeepSeek)",
                {},
                StagePlacement::kBidirectional,
                true,
                1,
                DualPipeRule,
                DualPipeOrder,
                DualPipeIdle,
                "(p/2-1)(tFB+tB-3tW)"},
    ScheduleRow{"dualpipev",
                "DualPipe cut in half: one copy in a V (PyTorch ScheduleDualPipeV)",
                {},
                kV,
                true,
                2,
                DualPipeVRule,
                DualPipeVOrder,
                DualPipeVIdle,
                "(p-1)(tFB+tB-3tW) of chunks"},
};

struct FieldOfShape {
  std::int32_t ScheduleShape::*field;
  std::string_view name;
  std::int32_t least, most;
};
constexpr std::array kFields = {
    FieldOfShape{&ScheduleShape::ranks, "stages", 1, kMostRanks},
    FieldOfShape{&ScheduleShape::chunks, "virtual chunks per stage", 1, kMostChunks},
    FieldOfShape{&ScheduleShape::microbatches, "micro-batches", 1, kMostMicrobatches},
    FieldOfShape{&ScheduleShape::group, "micro-batches per group", 0, kMostMicrobatches},
};

const FieldOfShape& FieldRowOf(std::int32_t ScheduleShape::*field) {
  const auto is_it = [field](const FieldOfShape& row) { return row.field == field; };
  return *std::find_if(kFields.begin(), kFields.end(), is_it);
}

ShapeProblem ProblemOf(const ScheduleRow& row, const ScheduleShape& shape) {
  for (const FieldOfShape& f : kFields) {
    if (shape.*f.field >= f.least && shape.*f.field <= f.most) continue;
    return {f.field, "from " + std::to_string(f.least) + " to " + std::to_string(f.most)};
  }
  if (shape.group != 0 && row.rule != MegatronGroupRule) {
    return {&ScheduleShape::group, "0 (only megatron_interleaved has groups)"};
  }
  const std::int64_t rows = std::int64_t{shape.ranks} * shape.chunks;
  if (rows * shape.microbatches > kMostCells) {
    return {&ScheduleShape::microbatches,
            "at most " + std::to_string(kMostCells / rows) + " with so many stages"};
  }
  return row.rule(shape);
}

// The admitted values of the field just below and just above the one found.
std::string NearestValues(const ScheduleRow& row, ScheduleShape shape, const FieldOfShape& f) {
  const std::int32_t found = std::clamp(shape.*f.field, f.least - 1, f.most + 1);
  std::string text;
  for (const std::int32_t step : {-1, 1}) {
    for (std::int32_t value = found + step; value >= f.least && value <= f.most; value += step) {
      shape.*f.field = value;
      const ShapeProblem problem = ProblemOf(row, shape);
      if (problem.field == f.field) continue;
      if (problem.field == nullptr) text += (text.empty() ? "" : " or ") + std::to_string(value);
      break;
    }
  }
  return text;
}

// Letters and digits in lower case, without "schedule" in front.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) plain += static_cast<char>(std::tolower(byte));
  }
  constexpr std::string_view kPrefix = "schedule";
  return plain.rfind(kPrefix, 0) == 0 ? plain.substr(kPrefix.size()) : plain;
}

}  // namespace

std::string ToString(const Action& action) {
  constexpr std::array<std::string_view, 11> kNames = {
      "F",           "B",      "I",      "W",      "UNSHARD", "RESHARD",
      "REDUCE_GRAD", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
  std::string text = std::to_string(action.stage);
  text += kNames[static_cast<std::size_t>(action.kind)];
  if (action.microbatch >= 0) text += std::to_string(action.microbatch);
  return text;
}

std::int32_t PipelineSchedule::stages() const { return shape.ranks * shape.chunks; }

std::int32_t PipelineSchedule::RankOf(std::int32_t stage, std::int32_t microbatch) const {
  const std::int32_t p = shape.ranks;
  switch (placement) {
    case StagePlacement::kLoop:
      break;
    case StagePlacement::kV:
      return stage < p ? stage : 2 * p - 1 - stage;
    case StagePlacement::kBidirectional:
      return microbatch < shape.microbatches / 2 ? stage : p - 1 - stage;
  }
  return stage % p;
}

std::vector<std::int32_t> PipelineSchedule::StagesOf(std::int32_t rank) const {
  const std::int32_t p = shape.ranks;
  if (placement == StagePlacement::kV) return {rank, 2 * p - 1 - rank};
  if (placement == StagePlacement::kBidirectional) {
    return {std::min(rank, p - 1 - rank), std::max(rank, p - 1 - rank)};
  }
  std::vector<std::int32_t> stages;
  for (std::int32_t stage = rank; stage < this->stages(); stage += p) stages.push_back(stage);
  return stages;
}

std::string ScheduleRow::Problem(const ScheduleShape& shape) const {
  const ShapeProblem problem = ProblemOf(*this, shape);
  if (problem.field == nullptr) return "";
  const FieldOfShape& f = FieldRowOf(problem.field);
  const std::string nearest = NearestValues(*this, shape, f);
  std::string text = std::string(name) + ": found " + std::to_string(shape.*f.field) + " ";
  text += std::string(f.name) + ", allowed: " + problem.allowed;
  return nearest.empty() ? text : text + "; nearest: " + nearest;
}

PipelineSchedule ScheduleRow::Make(const ScheduleShape& shape) const {
  SIM_CHECK(ProblemOf(*this, shape).field == nullptr, "the schedule admits the shape");
  return {std::string(name), shape, placement, splits_backward, order(shape)};
}

std::span<const ScheduleRow> Schedules() { return kSchedules; }

const ScheduleRow* FindSchedule(std::string_view name) {
  const std::string wanted = Plain(name);
  if (wanted.empty()) return nullptr;
  for (const ScheduleRow& row : kSchedules) {
    if (Plain(row.name) == wanted) return &row;
    for (const std::string_view alias : row.aliases) {
      if (Plain(alias) == wanted) return &row;
    }
  }
  return nullptr;
}

}  // namespace stepsim
