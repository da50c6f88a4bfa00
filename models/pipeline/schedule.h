// In which order does each pipeline rank run its micro-batches? A schedule is a list of actions per
// rank, made by a pure function of the pipeline's shape: no times, no graph.
//
//   const ScheduleRow* row = FindSchedule("1F1B");            // or PyTorch's "Schedule1F1B"
//   const PipelineSchedule s = row->Make({.ranks = 2, .microbatches = 2});
//   s.ranks[0]  ->  0F0 0F1 0B0 0B1
//   s.ranks[1]  ->  1F0 1B0 1F1 1B1
//
// To add a schedule: one file with its rule and its order (families.h), one row in schedule.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepsim {

enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,        // input and weight gradient together
  kInputGradient,   // the first half of a split backward
  kWeightGradient,  // its second half
  kUnshard,         // gather a stage's parameters (FSDP)
  kReshard,         // free them
  kReduceGrad,      // reduce a stage's gradients over the data-parallel group
  kSendForward,
  kRecvForward,
  kSendBackward,
  kRecvBackward,
};

constexpr bool IsCompute(ActionKind kind) { return kind <= ActionKind::kWeightGradient; }
// Whether it makes the gradient that the stage before waits for.
constexpr bool MakesInputGradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGradient;
}
// Whether it is the stage's last use of what its forward has stored.
constexpr bool MakesWeightGradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient;
}

struct Action {
  ActionKind kind{};
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;    // -1: the action concerns a stage as a whole
  bool overlaps_previous = false;  // one operation together with the action before it

  friend bool operator==(const Action&, const Action&) = default;
};

std::string ToString(const Action& action);  // "0F3", "2UNSHARD", as PyTorch writes it

// Where stages live. With p ranks:
enum class StagePlacement {
  kLoop,           // stage s on rank s mod p
  kV,              // stages r and 2p-1-r on rank r
  kBidirectional,  // p stages twice: micro-batches of the second half enter at rank p-1
};

struct ScheduleShape {
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;  // stages per rank; bidirectional: 1, though a rank holds two of them
  std::int32_t microbatches = 1;
  std::int32_t group = 0;  // microbatch_group_size_per_vp_stage; 0: as the schedule chooses
};

inline constexpr std::int32_t kMostRanks = 4096;
inline constexpr std::int32_t kMostChunks = 256;
inline constexpr std::int32_t kMostMicrobatches = 65'536;
inline constexpr std::int64_t kMostCells = 1 << 22;  // ranks x chunks x micro-batches

struct PipelineSchedule {
  std::string name;
  ScheduleShape shape;
  StagePlacement placement = StagePlacement::kLoop;
  bool splits_backward = false;
  std::vector<std::vector<Action>> ranks;

  std::int32_t stages() const;
  std::int32_t RankOf(std::int32_t stage, std::int32_t microbatch) const;
  std::vector<std::int32_t> StagesOf(std::int32_t rank) const;  // ascending
};

// What one forward, input gradient and weight gradient of a chunk take.
struct ChunkTimes {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;

  double backward() const { return input_gradient + weight_gradient; }
};

// What is wrong with a shape; `field` is null when nothing is.
struct ShapeProblem {
  std::int32_t ScheduleShape::*field = nullptr;
  std::string allowed;
};

using RankOrders = std::vector<std::vector<Action>>;

struct ScheduleRow {
  std::string_view name;
  std::string_view doc;
  std::array<std::string_view, 2> aliases;  // frameworks' names; "": none
  StagePlacement placement = StagePlacement::kLoop;
  bool splits_backward = false;
  std::int32_t default_chunks = 1;
  ShapeProblem (*rule)(const ScheduleShape& shape) = nullptr;
  RankOrders (*order)(const ScheduleShape& shape) = nullptr;
  // Idle time of a rank with free transfers, where a closed form holds (bubble.cc); and its text.
  std::optional<double> (*idle)(const ScheduleShape& shape, const ChunkTimes& times) = nullptr;
  std::string_view idle_formula;

  // "": the schedule admits this shape. Else what was found, what is allowed, the nearest values.
  std::string Problem(const ScheduleShape& shape) const;
  // REQUIRES: Problem(shape) is "".
  PipelineSchedule Make(const ScheduleShape& shape) const;
};

// Megatron-LM's interleaving, and the one of its forwards and backwards joined.
inline constexpr std::string_view kMegatronInterleaved = "megatron_interleaved";
inline constexpr std::string_view kMegatronPaired = "megatron_paired";
constexpr bool IsMegatronsInterleaving(std::string_view name) {
  return name == kMegatronInterleaved || name == kMegatronPaired;
}

std::span<const ScheduleRow> Schedules();
// By name, alias or the name of PyTorch's class; letter case, '_', '-' and "Schedule" in front are
// ignored. nullptr: there is none.
const ScheduleRow* FindSchedule(std::string_view name);

}  // namespace stepsim
