#include "models/workload/workload.h"

#include <algorithm>

#include "models/workload/gradient_flow.h"
#include "models/workload/layer_list.h"
#include "models/workload/recompute.h"
#include "models/workload/transformer.h"

namespace stepsim {

std::int64_t Workload::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterTensor& parameter : parameters) count += parameter.elements;
  return count;
}

Bytes Workload::parameter_bytes() const {
  Bytes bytes;
  for (const ParameterTensor& parameter : parameters) bytes += parameter.bytes();
  return bytes;
}

Bytes Workload::saved_bytes() const {
  Bytes bytes;
  for (const ModelUnit& unit : units) {
    for (const Operator& op : unit.operators) bytes += op.kept();
  }
  return bytes;
}

std::span<const Rerun> Workload::RerunsBefore(OperatorPlace place) const {
  const auto begin =
      std::lower_bound(reruns.begin(), reruns.end(), place,
                       [](const Rerun& r, const OperatorPlace& p) { return r.before < p; });
  auto end = begin;
  while (end != reruns.end() && end->before == place) ++end;
  return {begin, end};
}

std::vector<std::int32_t> Workload::ArrivalOrder() const {
  std::vector<std::int32_t> order;
  order.reserve(parameters.size());
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    for (auto op = unit->operators.rbegin(); op != unit->operators.rend(); ++op) {
      order.insert(order.end(), op->parameters_ready.begin(), op->parameters_ready.end());
    }
  }
  return order;
}

Workload BuildWorkload(const JobSpec& job) {
  if (TransformerOf(job) != nullptr) {
    Workload workload = BuildTransformerWorkload(job);
    AddGradientFlow(&workload);
    ApplyRecompute(job.recompute, &workload);
    return workload;
  }
  return BuildLayerListWorkload(job);
}

}  // namespace stepsim
