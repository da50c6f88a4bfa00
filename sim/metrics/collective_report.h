// What became of each collective: how much of it was hidden, how much exposed, and why?
#pragma once

#include <vector>

#include "sim/metrics/accounting.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// What the lists of all ranks have in common, worked out once. REQUIRES: what it is made of lives
// as long as it does.
struct CollectiveFacts {
  CollectiveFacts(const TaskGraph& step_graph, const Timeline& step_timeline,
                  const IdVector<WorkId, CollectiveChoice>& carried_out, Window part);

  const TaskGraph& graph;
  const Timeline& timeline;
  const IdVector<WorkId, CollectiveChoice>& choices;
  Window window;
  // When the inputs of a task were there; of a collective behind a cast or division on its stream,
  // those of that kernel.
  IdVector<TaskId, SimTime> ready;
  IdVector<TaskId, TaskId> uses;     // first ones
  IdVector<StreamId, char> is_main;  // streams that compute
};

// The collectives of one rank that are resident inside the window, by start. Times are relative to
// the begin of the window.
std::vector<CollectiveReport> ReportCollectives(const CollectiveFacts& facts,
                                                const RankActivity& activity);

}  // namespace stepsim
