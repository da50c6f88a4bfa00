#include "models/spec/correction_key.h"

#include <algorithm>

#include "models/spec/gpu_generation.h"

namespace stepsim {
namespace {

// A larger NVLink domain is a rack of many trays; what lies between racks is no node's network.
constexpr std::int64_t kMostGpusOfABox = 16;

}  // namespace

std::string_view CorrectionTransport(const HardwareSpec& hardware, std::int64_t nodes) {
  if (nodes <= 1) return hardware.intra_node.type;
  if (hardware.gpus_per_node > kMostGpusOfABox) return "racks";
  const std::string& type = hardware.network.link.type;
  return type == "roce" ? std::string_view("infiniband") : std::string_view(type);
}

bool IsWithinNode(std::string_view transport) {
  return transport == "nvlink" || transport == "pcie";
}

void KeepRowsFor(const HardwareSpec& hardware, CollectiveCorrections& table) {
  const std::string_view inside = CorrectionTransport(hardware, 1);
  const std::string_view outside = CorrectionTransport(hardware, 2);
  const std::string_view generation = ToString(GenerationOf(hardware.gpu.compute_capability));
  const auto is_foreign = [&](const CollectiveCorrection& row) {
    const bool is_general =
        row.transport == "*" || row.transport == "node" || row.transport == "network";
    const bool is_here = is_general || row.transport == inside || row.transport == outside;
    return !is_here || (row.generation != "*" && row.generation != generation);
  };
  table.rows.erase(std::remove_if(table.rows.begin(), table.rows.end(), is_foreign),
                   table.rows.end());
}

}  // namespace stepsim
