// Which rows of a correction table are about this machine?
#pragma once

#include <cstdint>
#include <string_view>

#include "models/spec/collective_spec.h"
#include "models/spec/hardware.h"

namespace stepsim {

// The slowest kind of link of a group: the network's type where it spans nodes (RoCE counts as
// InfiniBand: the same verbs), else the node's. "racks": between NVLink domains of many trays.
std::string_view CorrectionTransport(const HardwareSpec& hardware, std::int64_t nodes);
bool IsWithinNode(std::string_view transport);  // "nvlink", "pcie"

// Leaves the rows that some group on this machine can match.
void KeepRowsFor(const HardwareSpec& hardware, CollectiveCorrections& table);

}  // namespace stepsim
