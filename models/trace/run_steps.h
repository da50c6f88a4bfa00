// Where does a step of a trace begin and end?
#pragma once

#include <string>
#include <vector>

#include "models/trace/lane.h"
#include "models/trace/measured_run.h"

namespace stepsim {

// A step ends with the last kernel that was launched in it (without launches: that began in it); a
// collective that nobody waits for runs on under the next one. It begins where the one before ends,
// the first one with its first kernel. Of several ranks: from the last end to the last end.
// Steps that not all ranks have are left out. Without any mark the whole trace is step 0.
std::vector<MeasuredStep> FindSteps(const std::vector<Lane>& lanes,
                                    const std::vector<Duration>& shifts, SimTime makespan,
                                    std::vector<std::string>* warnings);

}  // namespace stepsim
