// Memory as a curve in the trace: one counter for each rank, stacked by category.
//
//   {"ph":"C","name":"memory","pid":1,"ts":12.500000,"args":{"parameters":...,"activations":...}}
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "sim/graph/task_graph.h"
#include "sim/metrics/accounting.h"
#include "sim/metrics/memory_profile.h"
#include "sim/report/text_buffer.h"

namespace stepsim {

// An event at every moment of the window at which the use has changed. Categories that the rank
// never uses are left out. `begin_event` writes what separates events, and the given text.
void WriteMemoryCounter(const TaskGraph& graph, const MemoryReplay& replay, RankId rank,
                        std::int32_t pid, const Window& window,
                        const std::function<void(std::string_view)>& begin_event, TextBuffer* text);

}  // namespace stepsim
