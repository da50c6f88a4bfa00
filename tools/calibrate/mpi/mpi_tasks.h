// How are collectives measured with MPI, alone and beside a matrix product?
#pragma once

#include <memory>

#include "tools/calibrate/backend.h"

namespace stepsim::measure {

// Throws MeasureError that names the call, its code and what MPI says about it.
void CheckMpi(int code, const char* call);

std::unique_ptr<Prepared> PrepareMpiCollective(const CollectiveTask& task);
std::unique_ptr<Prepared> PrepareMpiBeside(const GemmTask& compute, const CollectiveLoad& load);

}  // namespace stepsim::measure
