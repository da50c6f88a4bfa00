// What does an Nsight Systems report say, exported as SQLite (nsys export --type sqlite)?
//
// Tables: CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _RUNTIME, NVTX_EVENTS, StringIds,
// TARGET_INFO_GPU. Columns that a version lacks are left at their defaults.
#pragma once

#include <string>

#include "models/trace/trace_data.h"

namespace stepsim {

bool IsSqlite(const std::string& file);  // by its first bytes

// Throws ConfigError when it holds no kernels.
TraceData ReadNsys(const std::string& file);

}  // namespace stepsim
