// Which parameters does stage 3 fetch together, and in which order are they used? The modules of a
// network, and the recorded order of their uses through forward and backward.
//
//   a module is every operator that uses parameters, or a whole unit (a leaf module)
//   modules 0 1 2 are used in the order 0 1 2 2 1 0; with recomputation some of them once more
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/spec/zero_spec.h"
#include "models/workload/workload.h"

namespace stepsim {

inline bool UsesParameters(const Operator& op) {
  return !op.parameters_ready.empty() || !op.also_uses.empty();
}

struct FetchedModule {
  std::vector<std::int32_t> parameters;  // registration order
  std::int64_t elements = 0;
};

class ZeroModules {
 public:
  ZeroModules(const Workload& workload, const ZeroPlan& plan);

  bool IsLeaf(std::int32_t unit) const { return is_leaf_[static_cast<std::size_t>(unit)]; }
  std::size_t use_count() const { return uses_.size(); }
  const FetchedModule& ModuleOf(std::size_t use) const { return modules_[uses_[use]]; }

  // Whether the parameter is used again before so many elements of other modules are, behind `use`.
  bool IsUsedWithin(std::int32_t parameter, std::size_t use, std::int64_t elements) const;

 private:
  void Add(const Operator& op, FetchedModule& module) const;
  bool IsFetchedWhole(const ModelUnit& unit, const ZeroPlan& plan) const;
  void Close(FetchedModule module);
  void RecordBackward();
  void RecordReruns(OperatorPlace before);

  const Workload& workload_;
  std::vector<FetchedModule> modules_;               // in the order of forward
  std::vector<std::vector<std::size_t>> module_of_;  // unit, operator -> module
  std::vector<std::size_t> uses_;                    // modules, through forward and backward
  std::vector<bool> is_leaf_;                        // of units
  std::vector<std::int64_t> before_;                 // elements of the modules before each use
  std::vector<std::vector<std::size_t>> uses_of_;    // parameter -> its uses
};

}  // namespace stepsim
