// What about this one task? When it was ready, started and ended, what it waited for, what waits
// for it, and what the step would be without it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/study/explain.h"

namespace stepsim {

struct ExplainedTask {
  TaskId task{};
  std::size_t namesakes = 1;  // tasks of this name in the step, this one included
  SimTime ready{}, start{}, transfer_start{}, end{};  // relative to the begin of the step
  Duration alone{};                                   // how long it takes with nothing beside it
  // What set its start, nearest first, back to the begin of the step or at most kMostCauses long.
  struct Cause {
    TaskId task{};
    bool is_stream_order = false;  // it was before it on its stream; else its result is needed
    bool is_of_peer = false;       // of the member that arrived last
    SimTime end{};
  };
  std::vector<Cause> causes;
  // What waits for it: dependents, and what is behind it on its streams.
  struct Waiting {
    TaskId task{};
    bool is_stream_order = false;
    bool is_held_up = false;  // it started when this task ended
    SimTime start{};
  };
  std::vector<Waiting> waiting;
  const CollectiveReport* collective = nullptr;  // of a transfer of the reported rank
  std::optional<Duration> saved;                 // how much shorter the step is without it
};
inline constexpr std::size_t kMostCauses = 12;

// The task of that name in the reported step: of several the one on the reported rank with the most
// exposed time, then the last. Throws ConfigError with the nearest names when there is none.
ExplainedTask ExplainTask(const Explanation& why, const JobSpec& job, const std::string& name);

}  // namespace stepsim
