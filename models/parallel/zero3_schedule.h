// What does each use of a module gather, wait for and release? DeepSpeed's parameter coordinator
// over one micro-step, as a pure function: what it decides depends on sizes and order alone.
//
//   modules 0 1 2, window and reuse distance of one module:
//   use 0: fetch 0, prefetch 1, release 0      use 3 (backward of 2): prefetch 0, release 2
//   use 1: prefetch 2, release 1               use 4: release 1
//   use 2: prefetch 1 for backward, keep 2     use 5: release 0
#pragma once

#include <cstdint>
#include <vector>

#include "models/parallel/zero3_modules.h"

namespace stepsim {

struct ZeroUse {
  std::vector<std::int32_t> fetched;     // in one call, before the module runs
  std::vector<std::int32_t> awaited;     // its parameters that nobody has waited for
  std::vector<std::int32_t> prefetched;  // in one call, behind that wait
  std::vector<std::int32_t> released;    // when the module is done
};

// Smaller parameters are never partitioned away, once an order is recorded.
bool IsPersistent(const ParameterTensor& tensor, const ZeroPlan& plan);

// One for each use of `modules`. Lists are in registration order.
std::vector<ZeroUse> PlanUses(const ZeroPlan& plan, const Workload& workload,
                              const ZeroModules& modules);

}  // namespace stepsim
