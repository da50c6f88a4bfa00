// Processes that mpirun or srun started agree by MPI.
#pragma once

#include <memory>
#include <string>

#include "tools/calibrate/peers.h"

namespace stepsim::measure {

std::string MpiVersion();  // "Open MPI v4.1.4"

// Initializes MPI, and ends it when the object goes. Throws MeasureError.
std::unique_ptr<Peers> MakeMpiPeers();

}  // namespace stepsim::measure
