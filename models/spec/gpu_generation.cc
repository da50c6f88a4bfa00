#include "models/spec/gpu_generation.h"

namespace stepsim {

GpuGeneration GenerationOf(double compute_capability) {
  if (compute_capability >= 10) return GpuGeneration::kBlackwell;
  if (compute_capability >= 9) return GpuGeneration::kHopper;
  return compute_capability >= 8 ? GpuGeneration::kAmpere : GpuGeneration::kVolta;
}

std::string_view ToString(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kVolta:
      return "volta";
    case GpuGeneration::kAmpere:
      return "ampere";
    case GpuGeneration::kHopper:
      return "hopper";
    case GpuGeneration::kBlackwell:
      break;
  }
  return "blackwell";
}

}  // namespace stepsim
