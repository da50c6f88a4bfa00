// How much do a matrix product and what runs beside it slow each other down?
#pragma once

#include <memory>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/cuda/lt_gemm.h"
#include "tools/calibrate/cuda/nccl_group.h"
#include "tools/calibrate/peers.h"

namespace stepsim::measure {

std::unique_ptr<Prepared> PrepareCudaInterference(const LtHandle& handle, Communicators& all,
                                                  Peers& peers, const InterferenceTask& task);

}  // namespace stepsim::measure
