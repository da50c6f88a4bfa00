// Which units of the network are gathered and reduced together? The groups of FSDP: one per wrapped
// module, and the root's, which holds what is left (embeddings, last norm, head).
//
//   wrap per layer:  root {embedding, final_norm, head}, {layers.0}, {layers.1}, ...
//   experts of a layer that lie on ranks of their own:  {layers.0}, {layers.0.experts}, ...
//   custom, [embedding, "layers.*", final_norm+head]:  root {}, {embedding}, {layers.0}, ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/fsdp_spec.h"
#include "models/workload/workload.h"

namespace stepsim {

struct ShardGroup {
  std::string name;  // "layers.3", "root"
  bool is_root = false;
  std::int32_t first_unit = 0;  // units of the workload, inclusive; of the root: all
  std::int32_t last_unit = 0;
  std::vector<std::int32_t> parameters;  // indices into the workload, registration order
  std::int64_t elements = 0;
  // Experts that are dealt out (ParameterTensor::is_expert): nested in the group of their unit,
  // from the operator that sends the tokens out to the one that gets the results back.
  bool is_expert = false;
  std::int32_t first_operator = 0, last_operator = 0;
};

struct ShardGroups {
  std::vector<ShardGroup> groups;         // the root first, then in the order of forward
  std::vector<std::size_t> backward;      // ... in that of backward, the root first
  std::vector<std::size_t> of_unit;       // unit -> index into groups
  std::vector<std::size_t> nested;        // unit -> the group of its experts; the root's: none
  std::vector<std::size_t> of_parameter;  // parameter -> index into groups
};

// REQUIRES: the modules of `wrap: custom` are those of the workload.
ShardGroups GroupUnits(const Workload& workload, WrapPolicy policy, std::int64_t min_parameters,
                       const std::vector<std::string>& modules);
// As an Fsdp1Plan or Fsdp2Plan says.
template <class Plan>
ShardGroups GroupUnits(const Workload& workload, const Plan& plan) {
  return GroupUnits(workload, plan.wrap, plan.wrap_min_parameters, plan.wrap_modules);
}

// Elements that a gather or reduce moves when `shards` ranks hold equal parts.
std::int64_t PaddedElements(std::int64_t elements, std::int64_t shards);

}  // namespace stepsim
