#include "models/parallel/shard_groups.h"

#include <algorithm>
#include <utility>

#include "models/spec/wrap_modules.h"
#include "sim/base/check.h"

namespace stepsim {
namespace {

// Tensors whose gradient is complete in the unit: where a tied table lies is decided by its last
// use in backward, the embedding.
std::vector<std::int32_t> ParametersOf(const ModelUnit& unit) {
  std::vector<std::int32_t> parameters;
  for (const Operator& op : unit.operators) {
    parameters.insert(parameters.end(), op.parameters_ready.begin(), op.parameters_ready.end());
  }
  return parameters;
}

class Grouper {
 public:
  explicit Grouper(const Workload& workload) : workload_(workload) {
    result_.groups.push_back({"root", true, 0, LastUnit(), {}, 0});
  }

  ShardGroups ByLayer() {
    const bool has_layers = std::any_of(workload_.units.begin(), workload_.units.end(),
                                        [](const ModelUnit& unit) { return IsLayer(unit.name); });
    for (std::int32_t u = 0; u <= LastUnit(); ++u) {
      const ModelUnit& unit = UnitAt(u);
      const bool is_wrapped = has_layers ? IsLayer(unit.name) : !ParametersOf(unit).empty();
      Put(u, is_wrapped ? Open(u) : result_.groups.front());
    }
    return Finish();
  }

  ShardGroups ByModules(const std::vector<std::string>& modules) {
    std::vector<std::string> names;
    for (const ModelUnit& unit : workload_.units) names.push_back(unit.name);
    const WrappedModules wrapped = ResolveWrap(EntriesWithin(modules, names), names);
    SIM_CHECK(wrapped.problems.empty(), "a wrapped module is not one of the workload");
    std::int32_t next = 0;
    for (const UnitRange& range : wrapped.groups) {
      for (; next < range.first; ++next) Put(next, result_.groups.front());
      ShardGroup& group = Open(range.first);
      for (; next <= range.last; ++next) Put(next, group);
    }
    for (; next <= LastUnit(); ++next) Put(next, result_.groups.front());
    return Finish();
  }

  // A group is closed by the unit that fills it; what is left at the end stays with the root.
  ShardGroups ByParameters(std::int64_t least) {
    std::int32_t begin = 0;
    std::int64_t held = 0;
    for (std::int32_t u = 0; u <= LastUnit(); ++u) {
      if (SharesParameters(u)) {  // with another unit: in the one group that holds both
        for (; begin <= u; ++begin) Put(begin, result_.groups.front());
        held = 0;
        continue;
      }
      for (const std::int32_t p : ParametersOf(UnitAt(u))) held += ElementsOf(p);
      if (held < least) continue;
      ShardGroup& group = Open(begin);
      for (std::int32_t inside = begin; inside <= u; ++inside) Put(inside, group);
      begin = u + 1;
      held = 0;
    }
    for (std::int32_t u = begin; u <= LastUnit(); ++u) Put(u, result_.groups.front());
    return Finish();
  }

 private:
  // What of a wrapping there is in this stage of a pipeline: without one, all of it.
  static std::vector<std::string> EntriesWithin(const std::vector<std::string>& entries,
                                                const std::vector<std::string>& units) {
    std::vector<std::string> within;
    for (const std::string& entry : entries) {
      std::string kept;
      for (std::size_t begin = 0; begin <= entry.size();) {
        const std::size_t end = std::min(entry.find('+', begin), entry.size());
        std::string part = entry.substr(begin, end - begin);
        part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
        const bool is_here = std::any_of(units.begin(), units.end(), [&](const std::string& unit) {
          return FitsPattern(unit, part);
        });
        if (is_here) kept += (kept.empty() ? "" : "+") + part;
        begin = end + 1;
      }
      if (!kept.empty()) within.push_back(std::move(kept));
    }
    return within;
  }

  std::int32_t LastUnit() const { return static_cast<std::int32_t>(workload_.units.size()) - 1; }
  const ModelUnit& UnitAt(std::int32_t u) const {
    return workload_.units[static_cast<std::size_t>(u)];
  }
  std::int64_t ElementsOf(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)].elements;
  }

  // A tied table and its users.
  bool SharesParameters(std::int32_t u) const {
    const std::vector<std::int32_t> own = ParametersOf(UnitAt(u));
    for (const ModelUnit& unit : workload_.units) {
      for (const Operator& op : unit.operators) {
        if (op.also_uses.empty()) continue;
        if (&unit == &UnitAt(u)) return true;
        for (const std::int32_t p : op.also_uses) {
          if (std::find(own.begin(), own.end(), p) != own.end()) return true;
        }
      }
    }
    return false;
  }

  ShardGroup& Open(std::int32_t first) {
    result_.groups.push_back({UnitAt(first).name, false, first, first, {}, 0});
    return result_.groups.back();
  }

  void Put(std::int32_t unit, ShardGroup& group) {
    for (const std::int32_t p : ParametersOf(UnitAt(unit))) {
      if (workload_.parameters[static_cast<std::size_t>(p)].is_expert) continue;
      group.parameters.push_back(p);
      group.elements += ElementsOf(p);
    }
    if (group.is_root) return;
    group.last_unit = unit;
    if (unit != group.first_unit)
      group.name = UnitAt(group.first_unit).name + ".." + UnitAt(unit).name;
  }

  static bool IsAmongExperts(const Exchange& exchange) {
    return exchange.axis == ExchangeAxis::kExpert || exchange.axis == ExchangeAxis::kExpertTensor ||
           exchange.axis == ExchangeAxis::kExperts;
  }

  void NestExperts() {
    for (std::int32_t u = 0; u <= LastUnit(); ++u) {
      ShardGroup group{UnitAt(u).name + ".experts", false, u, u, {}, 0, true};
      const auto& operators = UnitAt(u).operators;
      for (std::size_t i = operators.size(); i-- > 0;) {
        for (const std::int32_t p : operators[i].parameters_ready) {
          if (!workload_.parameters[static_cast<std::size_t>(p)].is_expert) continue;
          group.parameters.push_back(p);
          group.elements += ElementsOf(p);
        }
        const auto& exchanges = operators[i].exchanges;
        if (!std::any_of(exchanges.begin(), exchanges.end(), IsAmongExperts)) continue;
        group.first_operator = static_cast<std::int32_t>(i);
        group.last_operator = std::max(group.last_operator, group.first_operator);
      }
      if (!group.parameters.empty()) result_.groups.push_back(std::move(group));
    }
  }

  // A layer's own group comes before that of its experts in both directions.
  void Order() {
    std::stable_sort(result_.groups.begin() + 1, result_.groups.end(),
                     [](const ShardGroup& a, const ShardGroup& b) {
                       return std::pair(a.first_unit, a.is_expert) <
                              std::pair(b.first_unit, b.is_expert);
                     });
    for (std::size_t g = 0; g < result_.groups.size(); ++g) result_.backward.push_back(g);
    std::stable_sort(result_.backward.begin() + 1, result_.backward.end(),
                     [&](std::size_t a, std::size_t b) {
                       const ShardGroup& left = result_.groups[a];
                       const ShardGroup& right = result_.groups[b];
                       return std::pair(-left.last_unit, left.is_expert) <
                              std::pair(-right.last_unit, right.is_expert);
                     });
  }

  ShardGroups Finish() {
    NestExperts();
    Order();
    result_.of_unit.assign(workload_.units.size(), 0);
    result_.nested.assign(workload_.units.size(), 0);
    for (std::size_t g = 1; g < result_.groups.size(); ++g) {
      const ShardGroup& group = result_.groups[g];
      for (std::int32_t u = group.first_unit; u <= group.last_unit; ++u) {
        (group.is_expert ? result_.nested : result_.of_unit)[static_cast<std::size_t>(u)] = g;
      }
    }
    result_.of_parameter.assign(workload_.parameters.size(), 0);
    for (std::size_t g = 0; g < result_.groups.size(); ++g) {
      std::vector<std::int32_t>& parameters = result_.groups[g].parameters;
      std::sort(parameters.begin(), parameters.end());
      for (const std::int32_t p : parameters) {
        result_.of_parameter[static_cast<std::size_t>(p)] = g;
      }
    }
    return std::move(result_);
  }

  const Workload& workload_;
  ShardGroups result_;
};

}  // namespace

ShardGroups GroupUnits(const Workload& workload, WrapPolicy policy, std::int64_t min_parameters,
                       const std::vector<std::string>& modules) {
  Grouper grouper(workload);
  switch (policy) {
    case WrapPolicy::kMinParameters:
      return grouper.ByParameters(min_parameters);
    case WrapPolicy::kCustom:
      return grouper.ByModules(modules);
    case WrapPolicy::kLayer:
      break;
  }
  return grouper.ByLayer();
}

std::int64_t PaddedElements(std::int64_t elements, std::int64_t shards) {
  return (elements + shards - 1) / shards * shards;
}

}  // namespace stepsim
