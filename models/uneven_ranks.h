// Does one rank stand for all? Folded ranks are alike only where their groups lie alike on the
// nodes: of three tensor-parallel ranks on nodes of four GPUs, every other group crosses nodes.
#pragma once

#include <string>

#include "models/spec/job.h"
#include "sim/metrics/step_report.h"

namespace stepsim {

// What the folding hides, and how to see it. Empty where all groups lie alike, and with
// simulate.ranks: all.
std::string UnevenRanksWarning(const JobSpec& job);
// In front of the other warnings: it concerns every number.
void AddUnevenRanks(const JobSpec& job, StepReport* report);

}  // namespace stepsim
