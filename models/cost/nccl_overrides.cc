#include "models/cost/nccl_overrides.h"

#include <algorithm>

namespace stepsim {
namespace {

bool Contains(const NcclNameList& list, std::string_view name) {
  return std::find(list.names.begin(), list.names.end(), name) != list.names.end();
}
bool Allows(const NcclNameList* list, std::string_view name) {
  return list == nullptr || Contains(*list, name) != list->is_negated;
}

}  // namespace

NcclOverrides::NcclOverrides(const CollectiveModelSpec& spec)
    : algorithms_(ParseNcclAlgorithms(spec.algorithm)),
      protocols_(ParseNcclProtocols(spec.protocol)) {
  const NcclChoice pin = ParseNcclAlgorithms(spec.all_reduce);
  if (!pin.lists.empty()) all_reduce_ = pin.lists.front();
}

const NcclNameList* NcclOverrides::AlgorithmList(CollectiveOp op) const {
  if (op == CollectiveOp::kAllReduce && !all_reduce_.names.empty()) return &all_reduce_;
  const NcclNameList* list = algorithms_.ListFor(ToString(op));
  // Broadcast and reduce know one algorithm only: a list for all collectives does not mean them.
  const bool has_one = op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce;
  return list != nullptr && has_one && list->collective.empty() ? nullptr : list;
}

bool NcclOverrides::AllowsAlgorithm(CollectiveOp op, std::string_view name) const {
  return Allows(AlgorithmList(op), name);
}

bool NcclOverrides::AllowsProtocol(CollectiveOp op, std::string_view name) const {
  return Allows(protocols_.ListFor(ToString(op)), name);
}

bool NcclOverrides::NamesProtocols(CollectiveOp op) const {
  return protocols_.ListFor(ToString(op)) != nullptr;
}

bool NcclOverrides::NamesAlgorithms(CollectiveOp op) const { return AlgorithmList(op) != nullptr; }

bool NcclOverrides::AsksFor(CollectiveOp op, std::string_view algorithm) const {
  const NcclNameList* list = AlgorithmList(op);
  return list != nullptr && !list->is_negated && Contains(*list, algorithm);
}

}  // namespace stepsim
