#include "models/cost/correction_row.h"

#include <cmath>

#include "sim/base/time.h"

namespace stepsim {
namespace {

bool Matches(std::string_view pattern, std::string_view value) {
  return pattern == "*" || pattern == value;
}

bool MatchesTransport(std::string_view pattern, std::string_view transport) {
  if (pattern == "node") return IsWithinNode(transport);
  if (pattern == "network") return !IsWithinNode(transport);
  return Matches(pattern, transport);
}

}  // namespace

std::string_view CorrectionTransport(const HardwareSpec& hardware, std::int64_t nodes) {
  if (nodes <= 1) return hardware.intra_node.type;
  const std::string& type = hardware.network.link.type;
  return type == "roce" ? std::string_view("infiniband") : std::string_view(type);
}

bool IsWithinNode(std::string_view transport) {
  return transport == "nvlink" || transport == "pcie";
}

std::string_view GenerationName(double compute_capability) {
  if (compute_capability >= 10) return "blackwell";
  if (compute_capability >= 9) return "hopper";
  return compute_capability >= 8 ? "ampere" : "volta";
}

const CollectiveCorrection& FindCorrectionRow(const CollectiveCorrections& table,
                                              const CorrectionKey& key) {
  static const CollectiveCorrection kIdentity{};
  for (const CollectiveCorrection& row : table.rows) {
    if (MatchesTransport(row.transport, key.transport) && Matches(row.generation, key.generation) &&
        Matches(row.algorithm, key.algorithm) && Matches(row.protocol, key.protocol) &&
        Matches(row.collective, key.collective)) {
      return row;
    }
  }
  return kIdentity;
}

CorrectedTime Correct(const CollectiveCorrection& row, double latency, double transfer) {
  CorrectedTime time;
  time.latency = row.latency_factor * latency + ToSeconds(row.added_latency);
  const double ramp = ToSeconds(row.ramp);
  const double filling =
      ramp > 0 && transfer > 0 ? std::pow(ramp / transfer, row.ramp_exponent) : 0;
  time.transfer = row.time_factor * transfer * (1 + filling);
  return time;
}

}  // namespace stepsim
