// How long may a collective take before compute waits for it?
//
//   compute  | B3 | B2 | B1 |      | optimizer |     r3 is first used by the optimizer: B2 and B1
//   nccl          |r3|r2 |  | r1   |                 still run beside it, so slack = B2 + B1 - r3.
//                                                    r1: nothing left to run, slack = -r1.
//
// The hiding condition of a collective is t_comm <= compute still to run; slack is the difference.
#pragma once

#include <vector>

#include "sim/base/ids.h"
#include "sim/graph/task_graph.h"
#include "sim/metrics/intervals.h"
#include "sim/timeline/timeline.h"

namespace stepsim {

// Of each rank the stream with the most compute; the first of equals. Kernels on others go with the
// collectives there: casts, divisions, copies back.
IdVector<StreamId, char> MainStreams(const TaskGraph& graph, const Timeline& timeline);

// The first kernel of each task's rank that waits for it, directly or through other communication,
// its stream or its communicator: what a longer transfer would hold up. Kernels count that lie on
// the stream of their rank with the most compute; copies beside collectives are part of the
// communication. kNoId where nothing in the simulated steps waits for it.
IdVector<TaskId, TaskId> FirstUses(const TaskGraph& graph, const Timeline& timeline);

struct Slack {
  Duration to_run{};  // compute between the begin of the transfer and its first use
  Duration slack{};   // that, less the transfer
};
// `computing`: when the rank computes. `limit`: ends the search where there is no use.
Slack SlackOf(const TaskGraph& graph, const Timeline& timeline, TaskId transfer, TaskId first_use,
              const std::vector<Interval>& computing, SimTime limit);

}  // namespace stepsim
