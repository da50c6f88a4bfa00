// How long does a piece of the host's work take? models/README.md, "Host". Sums are exact.
#pragma once

#include "models/spec/host_spec.h"
#include "sim/graph/work.h"

namespace stepsim {

// Throws SimulationError when the work would take longer than SimTime can hold.
Duration HostDuration(const HostWork& work, const HostTimes& times);

}  // namespace stepsim
