// The CPU measured as a device of its own: Eigen computes, MPI communicates.
#pragma once

#include <memory>
#include <string>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/peers.h"

namespace stepsim::measure {

std::unique_ptr<Backend> OpenMpiBackend(Peers& peers);

}  // namespace stepsim::measure
