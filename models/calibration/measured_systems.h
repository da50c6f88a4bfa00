// Which machine was measured? The words of a measurement table become a hardware profile, a place
// of the group and NCCL's settings, by rules: GPU model and fabric choose among configs/hardware,
// the network's words among the networks there and in configs/networks; what the words state (NICs,
// their speed) overrides the profile.
//
//   SystemMapper mapper(configs);
//   const MeasuredSystem system = mapper.Map(point);
//   system.hardware, system.placement, system.link_class, system.status
//
// Rules and words: models/README.md, "Corrections and calibration".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/calibration/measured_collectives.h"
#include "models/spec/config_source.h"
#include "models/spec/hardware.h"

namespace stepsim {

enum class LinkClass { kNvlink, kInfiniband, kCloud, kMultiRack, kPcie, kTcp };
inline constexpr int kLinkClasses = 6;
std::string_view ToString(LinkClass link_class);  // "nvlink", "ib_roce", "cloud", ...

enum class PointStatus {
  kScored,        // predicted, scored, used in fits
  kKeptOut,       // predicted, not scored: the table itself says that it is no ordinary measurement
  kNotPredicted,  // no profile fits
};

struct MeasuredSystem {
  HardwareSpec hardware;
  CollectiveModelSpec model;  // NCCL's version and what was pinned; no corrections yet
  Placement placement;
  LinkClass link_class = LinkClass::kNvlink;
  PointStatus status = PointStatus::kScored;
  std::string reason;  // why it is not scored: "degraded"
  std::string group;   // SystemGroup: variants of one cluster share it
};

class SystemMapper {
 public:
  // Reads every profile and network once. Throws ConfigError when one of them is wrong.
  explicit SystemMapper(const ConfigSource& configs);

  MeasuredSystem Map(const MeasuredCollective& point) const;

 private:
  const HardwareSpec* FindProfile(const MeasuredCollective& point) const;
  void ApplyFabric(const MeasuredCollective& point, HardwareSpec& hardware) const;
  void ApplyNetwork(const MeasuredCollective& point, HardwareSpec& hardware) const;

  std::vector<HardwareSpec> profiles_;
  std::vector<NetworkSpec> networks_;
};

// "stas_b200_1n_g4_ring" -> "stas_b200_1n", "vtrain_a100_8" -> "vtrain_a100", "oci_gb300_64_a2a" ->
// "oci_gb300": behind the first part, numbers of GPUs, collectives, algorithms and the ways to
// launch go. What is left names one cluster.
std::string SystemGroup(std::string_view system_id);

}  // namespace stepsim
