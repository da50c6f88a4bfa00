// How long does a schedule take when transfers are free? Every rank runs its list in order, each
// operation as soon as its inputs are there; the difference to the busy time is the bubble.
//
//   const ScheduleReplay replay = Replay(schedule, {.forward = 1});
//   replay.makespan, replay.ranks[0].idle
//
// An operation of two overlapped actions takes the sum of both, needs all inputs at its start and
// hands out its outputs at its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/pipeline/schedule.h"

namespace stepsim {

// What an action waits for: another one of the same micro-batch, by what it makes.
struct Input {
  bool is_gradient = false;  // else an activation
  std::int32_t stage = 0;    // of the action that makes it
  std::int32_t microbatch = 0;
};
struct Inputs {
  std::array<Input, 2> items;
  std::size_t count = 0;

  const Input* begin() const { return items.data(); }
  const Input* end() const { return items.data() + count; }
};
// None for communication actions.
Inputs InputsOf(const Action& action, std::int32_t stages);

struct RankReplay {
  std::vector<double> start;  // by action; both of an overlapped pair start together
  std::vector<double> end;
  double busy = 0;
  double span = 0;                             // from its first start to its last end
  double idle = 0;                             // makespan - busy
  std::int32_t peak_live = 0;                  // stored chunks, if W (or B) frees them
  std::int32_t peak_until_input_gradient = 0;  // if I (or B) does
};

struct ScheduleReplay {
  double makespan = 0;  // from time 0, when the first operation starts
  std::vector<RankReplay> ranks;
  // A deadlock: somebody's `start` is shorter than its list.
  bool is_complete = true;

  double longest_span() const;
};

// Communication actions are passed over. REQUIRES: stages and micro-batches within the shape.
ScheduleReplay Replay(const PipelineSchedule& schedule, const ChunkTimes& times = {});

}  // namespace stepsim
