#include "models/parallel/zero3_schedule.h"

#include <algorithm>
#include <cstddef>

namespace stepsim {
namespace {

class Coordinator {
 public:
  Coordinator(const ZeroPlan& plan, const Workload& workload, const ZeroModules& modules)
      : plan_(plan), workload_(workload), modules_(modules), states_(workload.parameters.size()) {
    for (std::size_t p = 0; p < states_.size(); ++p) {
      states_[p].is_persistent = IsPersistent(workload.parameters[p], plan);
    }
    for (std::size_t use = 0; use < modules.use_count(); ++use) {
      for (const std::int32_t p : modules.ModuleOf(use).parameters) order_.push_back({p, use});
    }
  }

  ZeroUse Use(std::size_t use) {
    ZeroUse result;
    const std::vector<std::int32_t>& parameters = modules_.ModuleOf(use).parameters;
    for (const std::int32_t p : parameters) {
      State& state = StateOf(p);
      if (!state.is_persistent && !state.is_available) Take(p, result.fetched);
      if (state.is_awaited) result.awaited.push_back(p);
      state.is_awaited = false;
    }
    while (next_ < order_.size() && order_[next_].use <= use) ++next_;
    if (!plan_.is_first_iteration()) Prefetch(result.prefetched);
    for (const std::int32_t p : parameters) {
      if (IsKept(p, use)) continue;
      StateOf(p).is_available = false;
      live_ -= ElementsOf(p);
      result.released.push_back(p);
    }
    return result;
  }

 private:
  struct State {
    bool is_persistent = false;
    bool is_available = false;  // gathered, or on its way
    bool is_awaited = false;    // on its way, and nobody has waited for it
    std::size_t satisfied = 0;  // the latest use that the prefetcher counts on it for
  };
  struct UseOf {
    std::int32_t parameter;
    std::size_t use;
  };

  State& StateOf(std::int32_t p) { return states_[static_cast<std::size_t>(p)]; }
  std::int64_t ElementsOf(std::int32_t p) const {
    return workload_.parameters[static_cast<std::size_t>(p)].elements;
  }

  void Take(std::int32_t p, std::vector<std::int32_t>& gather) {
    StateOf(p).is_available = StateOf(p).is_awaited = true;
    live_ += ElementsOf(p);
    gather.push_back(p);
  }

  // The next uses of the recorded order, the crossing parameter included.
  void Prefetch(std::vector<std::int32_t>& gather) {
    const std::int64_t most =
        std::min(plan_.stage3_max_live_parameters - live_, plan_.stage3_prefetch_bucket_size);
    for (std::int64_t elements = 0; next_ < order_.size() && elements < most; ++next_) {
      const auto [p, use] = order_[next_];
      State& state = StateOf(p);
      state.satisfied = use;
      if (state.is_persistent || state.is_available) continue;
      Take(p, gather);
      elements += ElementsOf(p);
    }
    std::sort(gather.begin(), gather.end());
  }

  bool IsKept(std::int32_t p, std::size_t use) {
    const State& state = StateOf(p);
    if (state.is_persistent || !state.is_available || state.satisfied > use) return true;
    return !plan_.is_first_iteration() &&
           modules_.IsUsedWithin(p, use, plan_.stage3_max_reuse_distance);
  }

  const ZeroPlan& plan_;
  const Workload& workload_;
  const ZeroModules& modules_;
  std::vector<State> states_;
  std::vector<UseOf> order_;  // of parameters
  std::size_t next_ = 0;      // of it, for the prefetcher
  std::int64_t live_ = 0;     // elements gathered or on their way
};

}  // namespace

bool IsPersistent(const ParameterTensor& tensor, const ZeroPlan& plan) {
  return !plan.is_first_iteration() && tensor.elements < plan.stage3_param_persistence_threshold;
}

std::vector<ZeroUse> PlanUses(const ZeroPlan& plan, const Workload& workload,
                              const ZeroModules& modules) {
  Coordinator coordinator(plan, workload, modules);
  std::vector<ZeroUse> uses;
  for (std::size_t use = 0; use < modules.use_count(); ++use) uses.push_back(coordinator.Use(use));
  return uses;
}

}  // namespace stepsim
