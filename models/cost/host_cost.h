// How long does a piece of the host's work take? models/README.md, "Host".
#pragma once

#include "models/spec/host_spec.h"
#include "sim/graph/work.h"

namespace stepsim {

double HostSeconds(const HostWork& work, const HostTimes& times);

}  // namespace stepsim
