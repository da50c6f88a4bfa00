#include "models/calibration/measured_systems.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/calibration/system_text.h"
#include "models/spec/load_job.h"
#include "sim/base/units.h"

namespace stepsim {
namespace {

constexpr std::array<std::string_view, kLinkClasses> kClassNames = {
    "nvlink", "ib_roce", "cloud", "multi_rack", "pcie_shm", "tcp"};

// Words of a row that say why it is no ordinary measurement of its system.
struct KeptOut {
  std::string_view word;
  std::string_view reason;
};
constexpr std::array kKeptOut = {
    KeptOut{"degraded", "reported as degraded"},
    KeptOut{"misconfigured", "reported as degraded"},
    KeptOut{"unnamed", "hardware not named"},
    KeptOut{"not stated", "speed of the network not stated"},
    KeptOut{"sharp plugin", "reduced in the network (SHARP)"},
    KeptOut{"symk", "symmetric-memory kernels"},
    KeptOut{"kernel", "device time of the kernel alone"},
};

// NVLinks that a ring can use in a cube mesh of eight V100 (DGX-1: six links of each GPU, one or
// two to each neighbour) when the first n GPUs take part. At 5 and 6 the way round passes through a
// GPU twice.
constexpr std::array<int, 9> kCubeMeshLinks = {0, 0, 1, 2, 4, 2, 2, 4, 6};
constexpr int kWholeCubeMesh = 8;

// Suffixes that name what was measured and how, not where.
constexpr std::array<std::string_view, 13> kHowWords = {"ring", "tree",   "nvls",   "ar",   "ag",
                                                        "rs",   "a2a",    "kernel", "symk", "eks",
                                                        "k8s",  "docker", "batch"};

bool IsVerbs(std::string_view type) { return type == "infiniband" || type == "roce"; }

LinkClass ClassOf(const HardwareSpec& hardware, const FabricText& fabric, std::int64_t nodes) {
  if (nodes == 1) {
    return hardware.intra_node.type == "nvlink" ? LinkClass::kNvlink : LinkClass::kPcie;
  }
  if (fabric.is_multi_node) return LinkClass::kMultiRack;
  const std::string& type = hardware.network.link.type;
  if (IsVerbs(type)) return LinkClass::kInfiniband;
  return type == "ethernet" ? LinkClass::kTcp : LinkClass::kCloud;
}

// How well a known network serves for what the words say; 0: another transport.
int NetworkScore(const NetworkSpec& network, const NicText& nic) {
  int score = 0;
  if (nic.transport == network.link.type) {
    score = 8;
  } else if (IsVerbs(nic.transport) && IsVerbs(network.link.type)) {
    score = 4;
  }
  if (score == 0) return 0;
  const bool is_same_speed =
      std::abs(network.link.bandwidth.value - nic.bandwidth.value) < 0.01 * nic.bandwidth.value;
  if (is_same_speed) score += 2;
  if (is_same_speed && network.nics_per_node == nic.count) score += 1;
  return score;
}

// "2.18.5+" -> "2.18.5", "2.19 (ngc 24.01)" -> "2.19", "?" -> "".
std::string Version(std::string_view text) {
  std::size_t end = 0;
  int dots = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) {
    if (text[end] == '.' && ++dots > 2) break;
    ++end;
  }
  if (end > 0 && text[end - 1] == '.') --end;
  const std::string version(text.substr(0, end));
  return version.find('.') == std::string::npos ? "" : version;
}

// "64", "g4" (GPUs in use), "1g", "32g"; a word of kHowWords.
bool IsHow(std::string_view part) {
  if (std::find(kHowWords.begin(), kHowWords.end(), part) != kHowWords.end()) return true;
  if (!part.empty() && part.front() == 'g') part.remove_prefix(1);
  if (!part.empty() && part.back() == 'g') part.remove_suffix(1);
  return ParseInteger(part).has_value();
}

void ApplyHow(std::string_view system_id, MeasuredSystem& system) {
  const std::string words = Words(system_id);
  if (HasWord(words, "ring")) system.model.algorithm = "ring";
  if (HasWord(words, "tree")) system.model.algorithm = "tree";
  if (HasWord(words, "symk")) system.model.symmetric_memory = true;
  if (HasWord(words, "sharp")) system.model.collnet = true;
}

// What the row says in words that no rule knows: the profile's own is taken, and said to be.
std::vector<std::string> Assumed(const MeasuredCollective& point, const MeasuredSystem& system) {
  std::vector<std::string> assumed;
  const NicText nic = ParseNic(point.nic, point.gpus_per_node);
  if (point.nodes > 1 && nic.transport.empty()) {
    assumed.push_back("network '" + point.nic + "' is not known: the profile's " +
                      system.hardware.network.link.type);
  }
  if (point.ranks > point.nodes && ParseFabric(point.intra_fabric).type.empty()) {
    assumed.push_back("links inside the node '" + point.intra_fabric +
                      "' are not known: the profile's " + system.hardware.intra_node.type);
  }
  if (!point.nccl_version.empty() && point.nccl_version != "?" &&
      Version(point.nccl_version).empty()) {
    assumed.push_back("release '" + point.nccl_version +
                      "' of NCCL is not known: " + system.model.nccl_version);
  }
  return assumed;
}

void ApplyStatus(const MeasuredCollective& point, const FabricText& fabric,
                 MeasuredSystem& system) {
  const std::string words =
      Words(point.system_id) + " " + Words(point.gpu) + " " + Words(point.nic);
  for (const KeptOut& row : kKeptOut) {
    if (!HasWord(words, row.word)) continue;
    system.status = PointStatus::kKeptOut;
    system.reason = row.reason;
    return;
  }
  if (fabric.is_cube_mesh && point.ranks / point.nodes < kWholeCubeMesh) {
    system.status = PointStatus::kKeptOut;
    system.reason = "part of a cube mesh";
  }
}

}  // namespace

std::string_view ToString(LinkClass link_class) {
  return kClassNames[static_cast<std::size_t>(link_class)];
}

std::string SystemGroup(std::string_view system_id) {
  std::string group;
  while (!system_id.empty()) {
    const std::size_t end = std::min(system_id.find('_'), system_id.size());
    const std::string_view part = system_id.substr(0, end);
    if (group.empty()) {
      group = part;
    } else if (!IsHow(part)) {
      group += '_';
      group += part;
    }
    system_id.remove_prefix(std::min(end + 1, system_id.size()));
  }
  return group;
}

SystemMapper::SystemMapper(const ConfigSource& configs) : profiles_(LoadAllHardware(configs)) {
  for (const std::string& name : configs.Names(ConfigKind::kNetworks)) {
    const auto file = configs.FindNamed(ConfigKind::kNetworks, name);
    if (file.has_value()) networks_.push_back(LoadNetworkText(file->text, file->name));
  }
}

const HardwareSpec* SystemMapper::FindProfile(const MeasuredCollective& point) const {
  const std::string model = GpuModel(point.gpu);
  const FabricText fabric = ParseFabric(point.intra_fabric);
  const NicText nic = ParseNic(point.nic, point.gpus_per_node);
  const std::string words = Words(point.gpu);
  const HardwareSpec* best = nullptr;
  int best_score = 0;
  for (const HardwareSpec& profile : profiles_) {
    if (GpuModel(profile.gpu.name) != model) continue;
    int score = 1;
    if (fabric.type == profile.intra_node.type) score += 8;
    if (NetworkScore(profile.network, nic) > 0) score += 4;
    const std::string profile_words = Words(profile.gpu.name);
    const std::size_t memory = profile_words.rfind(' ') + 1;  // its last word: "80gb"
    if (HasWord(words, std::string_view(profile_words).substr(memory))) score += 2;
    if (score > best_score) {
      best = &profile;
      best_score = score;
    }
  }
  return best;
}

void SystemMapper::ApplyFabric(const MeasuredCollective& point, HardwareSpec& hardware) const {
  const FabricText fabric = ParseFabric(point.intra_fabric);
  hardware.gpus_per_node = point.gpus_per_node;
  if (fabric.is_cube_mesh) {
    const std::int64_t ranks = std::min<std::int64_t>(point.ranks / point.nodes, kWholeCubeMesh);
    hardware.intra_node.bandwidth =
        hardware.intra_node.bandwidth *
        (kCubeMeshLinks[static_cast<std::size_t>(ranks)] / double{kCubeMeshLinks[kWholeCubeMesh]});
    hardware.switched = false;
  }
  if (fabric.type != "pcie" || hardware.intra_node.type == "pcie") return;
  // A GPU that the profiles know with NVLink, on a board without.
  for (const HardwareSpec& profile : profiles_) {
    if (profile.intra_node.type == "pcie") hardware.intra_node = profile.intra_node;
  }
  if (fabric.bandwidth.value > 0) hardware.intra_node.bandwidth = fabric.bandwidth;
  hardware.switched = false;
}

void SystemMapper::ApplyNetwork(const MeasuredCollective& point, HardwareSpec& hardware) const {
  const NicText nic = ParseNic(point.nic, hardware.gpus_per_node);
  if (nic.is_none || nic.transport.empty()) return;
  int best_score = NetworkScore(hardware.network, nic);
  for (const NetworkSpec& network : networks_) {
    const int score = NetworkScore(network, nic);
    // A network of the shelf beats the profile's own where the words say as much: its parameters
    // belong to the transport. A speed that is not stated is the profile's.
    if (score < best_score || score == 0) continue;
    if (score == best_score && nic.bandwidth.value == 0) continue;
    hardware.network = network;
    best_score = score;
  }
  hardware.network.link.type = nic.transport;
  if (nic.count > 0) hardware.network.nics_per_node = nic.count;
  if (nic.bandwidth.value > 0) hardware.network.link.bandwidth = nic.bandwidth;
}

MeasuredSystem SystemMapper::Map(const MeasuredCollective& point) const {
  MeasuredSystem system;
  system.group = SystemGroup(point.system_id);
  system.placement = {.ranks = point.ranks,
                      .nodes = point.nodes,
                      .ranks_per_node = (point.ranks + point.nodes - 1) / point.nodes};
  const FabricText fabric = ParseFabric(point.intra_fabric);
  if (point.ranks < 2) {
    system.status = PointStatus::kNotPredicted;
    system.reason = "one rank has nobody to talk to";
    return system;
  }
  const HardwareSpec* profile = FindProfile(point);
  if (profile == nullptr) {
    system.status = PointStatus::kNotPredicted;
    system.reason = "no hardware profile of a GPU '" + point.gpu + "'";
    return system;
  }
  system.hardware = *profile;
  ApplyFabric(point, system.hardware);
  ApplyNetwork(point, system.hardware);
  system.link_class = ClassOf(system.hardware, fabric, point.nodes);
  system.model.model = CollectiveModel::kNccl;
  const std::string version = Version(point.nccl_version);
  if (!version.empty()) system.model.nccl_version = version;
  ApplyHow(point.system_id, system);
  ApplyStatus(point, fabric, system);
  system.assumed = Assumed(point, system);
  return system;
}

}  // namespace stepsim
