#include "models/parallel/zero3_modules.h"

#include <algorithm>
#include <utility>

namespace stepsim {
namespace {

bool UsesParameters(const Operator& op) {
  return !op.parameters_ready.empty() || !op.also_uses.empty();
}

}  // namespace

ZeroModules::ZeroModules(const Workload& workload, const ZeroPlan& plan)
    : workload_(workload), uses_of_(workload.parameters.size()) {
  for (const ModelUnit& unit : workload.units) {
    is_leaf_.push_back(IsFetchedWhole(unit, plan));
    FetchedModule whole;
    for (const Operator& op : unit.operators) {
      if (!UsesParameters(op)) continue;
      Add(op, whole);
      if (!is_leaf_.back()) Close(std::exchange(whole, {}));
    }
    if (is_leaf_.back()) Close(std::move(whole));
  }
  before_.push_back(0);
  for (std::size_t use = 0; use < use_count(); ++use) {
    before_.push_back(before_.back() + ModuleOf(use).elements);
    for (const std::int32_t p : ModuleOf(use).parameters) {
      uses_of_[static_cast<std::size_t>(p)].push_back(use);
    }
  }
}

bool ZeroModules::IsUsedWithin(std::int32_t parameter, std::size_t use,
                               std::int64_t elements) const {
  const std::vector<std::size_t>& uses = uses_of_[static_cast<std::size_t>(parameter)];
  const auto next = std::upper_bound(uses.begin(), uses.end(), use);
  return next != uses.end() && before_[*next] - before_[use + 1] < elements;
}

void ZeroModules::Add(const Operator& op, FetchedModule& module) const {
  std::vector<std::int32_t>& all = module.parameters;
  all.insert(all.end(), op.parameters_ready.begin(), op.parameters_ready.end());
  all.insert(all.end(), op.also_uses.begin(), op.also_uses.end());
}

// DeepSpeed: elements / modules, of all modules in it and itself. A module without others in it has
// nothing to be fetched with.
bool ZeroModules::IsFetchedWhole(const ModelUnit& unit, const ZeroPlan& plan) const {
  FetchedModule whole;
  std::int64_t modules = 1;
  for (const Operator& op : unit.operators) {
    if (!UsesParameters(op)) continue;
    Add(op, whole);
    ++modules;
  }
  if (modules <= 2) return false;
  std::int64_t elements = 0;
  for (const std::int32_t p : whole.parameters) {
    elements += workload_.parameters[static_cast<std::size_t>(p)].elements;
  }
  const bool is_layer = unit.name.rfind("layers.", 0) == 0;
  return (is_layer && plan.stage3_leaf_modules == LeafModules::kLayers) ||
         elements / modules <= plan.stage3_module_granularity_threshold;
}

void ZeroModules::Close(FetchedModule module) {
  std::sort(module.parameters.begin(), module.parameters.end());
  for (const std::int32_t p : module.parameters) {
    module.elements += workload_.parameters[static_cast<std::size_t>(p)].elements;
  }
  modules_.push_back(std::move(module));
}

}  // namespace stepsim
