// Which generation is a GPU of, as NCCL tells them apart? By CUDA's compute capability:
//
//   GenerationOf(8.9)   // kAmpere: Ada is taken for it
//   ToString(GpuGeneration::kHopper)   // "hopper"
#pragma once

#include <string_view>

namespace stepsim {

enum class GpuGeneration { kVolta, kAmpere, kHopper, kBlackwell };  // older ones are Volta

GpuGeneration GenerationOf(double compute_capability);
std::string_view ToString(GpuGeneration generation);

}  // namespace stepsim
