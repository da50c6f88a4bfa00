// How far apart are neighbours along an axis? plan.mesh_order ("tp-cp-dp-pp", innermost first) for
// the rules of a job; models/topology/mesh.h has the whole mesh.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/spec/job.h"

namespace stepsim {

// Every axis once?
bool IsMeshOrder(std::string_view order);

// Ranks from one neighbour along "tp", "cp", "dp" or "pp" to the next: the axes before it.
std::int64_t MeshStride(const JobSpec& job, std::string_view axis);

}  // namespace stepsim
