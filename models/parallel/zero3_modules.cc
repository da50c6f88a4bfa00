#include "models/parallel/zero3_modules.h"

#include <algorithm>
#include <utility>

#include "models/spec/wrap_modules.h"

namespace stepsim {
ZeroModules::ZeroModules(const Workload& workload, const ZeroPlan& plan)
    : workload_(workload), uses_of_(workload.parameters.size()) {
  for (const ModelUnit& unit : workload.units) {
    is_leaf_.push_back(IsFetchedWhole(unit, plan));
    std::vector<std::size_t>& modules = module_of_.emplace_back();
    FetchedModule whole;
    for (const Operator& op : unit.operators) {
      modules.push_back(modules_.size());
      if (!UsesParameters(op)) continue;
      Add(op, whole);
      if (!is_leaf_.back()) Close(std::exchange(whole, {}));
    }
    if (is_leaf_.back()) Close(std::move(whole));
  }
  for (std::size_t m = 0; m < modules_.size(); ++m) uses_.push_back(m);
  RecordBackward();
  before_.push_back(0);
  for (std::size_t use = 0; use < use_count(); ++use) {
    before_.push_back(before_.back() + ModuleOf(use).elements);
    for (const std::int32_t p : ModuleOf(use).parameters) {
      uses_of_[static_cast<std::size_t>(p)].push_back(use);
    }
  }
}

void ZeroModules::RecordBackward() {
  for (std::size_t u = workload_.units.size(); u-- > 0;) {
    const auto& operators = workload_.units[u].operators;
    if (is_leaf_[u]) uses_.push_back(module_of_[u].front());
    for (std::size_t i = operators.size(); i-- > 0;) {
      RecordReruns({static_cast<std::int32_t>(u), static_cast<std::int32_t>(i)});
      if (!is_leaf_[u] && UsesParameters(operators[i])) uses_.push_back(module_of_[u][i]);
    }
  }
}

// A leaf module has hooks of its own alone: its rerun in the backward of another one, which begins
// with its first operator, fetches all of it; in its own backward all of it is there.
void ZeroModules::RecordReruns(OperatorPlace before) {
  for (const Rerun& rerun : workload_.RerunsBefore(before)) {
    for (const Rerun::Step& step : rerun.steps) {
      const auto unit = static_cast<std::size_t>(step.place.unit);
      const bool is_fetched = is_leaf_[unit] ? step.place.unit != before.unit && step.place.op == 0
                                             : UsesParameters(workload_.OperatorAt(step.place));
      if (is_fetched) uses_.push_back(module_of_[unit][static_cast<std::size_t>(step.place.op)]);
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
  return (IsLayer(unit.name) && plan.stage3_leaf_modules == LeafModules::kLayers) ||
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
