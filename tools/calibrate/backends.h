// Which backends were built? One row each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tools/calibrate/backend.h"
#include "tools/calibrate/launch_context.h"
#include "tools/calibrate/peers.h"

namespace stepsim::measure {

struct BackendRow {
  std::string_view name;  // as --backend takes it
  std::string_view doc;
  // Is there a device? One sentence that says what is missing, or "". Nothing else may be called
  // before.
  std::string (*missing)();
  // Throws MeasureError. `peers` outlives the backend.
  std::unique_ptr<Backend> (*open)(Peers& peers);
};

std::span<const BackendRow> Backends();

bool HasMpi();
// MPI's own: initializes MPI. REQUIRES: HasMpi().
std::unique_ptr<Peers> OpenMpiPeers();

}  // namespace stepsim::measure
