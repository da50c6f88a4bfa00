// What does the job allow NCCL to choose from?
#pragma once

#include <string_view>

#include "models/spec/collective_spec.h"
#include "models/spec/nccl_choice.h"
#include "sim/graph/work.h"

namespace stepsim {

// REQUIRES: a spec that has been checked. Unknown names allow nothing.
class NcclOverrides {
 public:
  explicit NcclOverrides(const CollectiveModelSpec& spec);

  bool AllowsAlgorithm(CollectiveOp op, std::string_view name) const;
  bool AllowsProtocol(CollectiveOp op, std::string_view name) const;
  // A list of protocols lifts NCCL's caution about LL128.
  bool NamesProtocols(CollectiveOp op) const;
  bool NamesAlgorithms(CollectiveOp op) const;
  // Named, not merely left over: algorithms that NCCL does not have want this.
  bool AsksFor(CollectiveOp op, std::string_view algorithm) const;

 private:
  const NcclNameList* AlgorithmList(CollectiveOp op) const;

  NcclChoice algorithms_;
  NcclChoice protocols_;
  NcclNameList all_reduce_;  // of collectives.all_reduce
};

}  // namespace stepsim
