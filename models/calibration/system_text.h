// What do the words of a measurement table mean? People describe a network as "8x400G IB NDR" and a
// node as "NVSwitch"; these readers turn such words into numbers and kinds.
//
//   ParseNic("8x400G IB NDR", 8)          -> 8 NICs of 50 GB/s, "infiniband"
//   ParseFabric("NVLink2 hybrid cube mesh") -> NVLink, not switched
//   GpuModel("A100-SXM4-80GB")            -> "a100"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/quantity.h"

namespace stepsim {

struct NicText {
  std::string transport;   // "infiniband", "roce", "efa", ... as LinkSpec::type; "": not said
  std::int64_t count = 0;  // NICs of a node; 0: not said
  Bandwidth bandwidth;     // of one; 0: not said
  bool is_none = false;    // no network: "none" or nothing
};
// `gpus_per_node` resolves "per GPU" and "per tray" (a tray of an NVL72 rack holds four GPUs).
NicText ParseNic(std::string_view text, std::int64_t gpus_per_node);

struct FabricText {
  std::string type;  // "nvlink", "pcie"; "": not said
  bool is_cube_mesh = false;
  bool is_multi_node = false;  // NVLink spans the nodes of a rack (MNNVL)
  Bandwidth bandwidth;         // of PCIe, by its generation; 0: not said
};
FabricText ParseFabric(std::string_view text);

// The product without its form and memory, in small letters and digits: "h100", "rtx4090", "gb10".
std::string GpuModel(std::string_view name);

// Lower case; what is no letter and no digit becomes one blank.
std::string Words(std::string_view text);
// Does `words` (as Words returns) contain `word` as a whole word, or as a word's beginning?
bool HasWord(std::string_view words, std::string_view word);
bool HasWordBeginning(std::string_view words, std::string_view begin);

}  // namespace stepsim
