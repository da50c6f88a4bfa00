// Where can communication be exposed? The overlap sites of a training step, in report order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepsim {

enum class Site : std::uint8_t {
  kGradientReduce,
  kParameterGather,
  kTensorParallel,
  kPipelineTransfer,
  kContextParallel,
  kExpertParallel,
  kOptimizer,
  kNone,  // compute and host work
};
inline constexpr std::size_t kSiteCount = static_cast<std::size_t>(Site::kNone);

std::string_view ToString(Site site);  // "gradient_reduce", ...

// Which part of a step a task belongs to.
enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer, kOther };

std::string_view ToString(Phase phase);  // "forward", "backward", "optimizer", "other"

}  // namespace stepsim
