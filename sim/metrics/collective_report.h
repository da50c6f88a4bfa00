// What became of each collective: how much of it was hidden, how much exposed, and why?
#pragma once

#include <vector>

#include "sim/metrics/accounting.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// The collectives of one rank that are resident inside the window, by start. Times are relative to
// the begin of the window.
std::vector<CollectiveReport> ReportCollectives(const TaskGraph& graph, const Timeline& timeline,
                                                const IdVector<WorkId, CollectiveChoice>& choices,
                                                const RankActivity& activity, RankId rank,
                                                Window window);

}  // namespace stepsim
