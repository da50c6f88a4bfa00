// Can a schedule run? Whether every micro-batch passes every stage once and on the right rank, and
// whether the ranks' lists wait for each other in a circle.
//
//   InvalidActions(schedule)  ->  "rank 1 never runs 1B0"
//   WaitCycle(schedule)       ->  "rank 0 at 0B0 waits for 1B0 on rank 1, which is behind 1F1 ..."
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/pipeline/replay.h"
#include "models/pipeline/schedule.h"

namespace stepsim {

struct ScheduleProblem {
  std::size_t rank = 0;
  std::size_t action = kNone;  // index in the rank's list
  std::string message;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
};

// Every micro-batch on every stage: one F and either one B or one I and one W, on the rank where
// the stage lives. Communication actions are not looked at. At most the first few problems.
std::vector<ScheduleProblem> InvalidActions(const PipelineSchedule& schedule);

// "" when every action can run; else one line for each rank of a circle of waits.
// REQUIRES: InvalidActions() is empty.
std::string WaitCycle(const PipelineSchedule& schedule);

// Whether no rank idles while its next operation could run: each starts when the one before it ends
// or when its last input is there.
bool IsWorkConserving(const PipelineSchedule& schedule, const ScheduleReplay& replay);

}  // namespace stepsim
