#include "tools/calibrate/job_shapes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "models/workload/workload.h"

namespace stepsim::measure {
namespace {

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>;

void Count(const ComputeWork& work, std::map<Key, double>& flops) {
  if (work.compute_class != ComputeClass::kGemm || work.m <= 0 || work.batch != 1) return;
  flops[{work.m, work.n, work.k, std::string(ToString(work.dtype))}] += work.flops.value;
}

std::vector<AttentionTask> AttentionOf(const JobSpec& job, const Workload& workload) {
  const TransformerSpec* transformer = TransformerOf(job);
  if (transformer == nullptr || workload.samples <= 0) return {};
  const TransformerSpec& t = *transformer;
  AttentionTask task;
  task.batch = static_cast<std::int64_t>(workload.samples);
  task.sequence = static_cast<std::int64_t>(workload.tokens / workload.samples);
  task.heads = std::max<std::int64_t>(1, t.heads / job.plan.tensor_parallel);
  task.head_dim = t.head_dim;
  task.causal = t.causal;
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) {
      if (op.forward.compute_class != ComputeClass::kAttention) continue;
      task.dtype = std::string(ToString(op.forward.dtype));
      return {task};
    }
  }
  return {};
}

}  // namespace

JobShapes ShapesOf(const JobSpec& job) {
  const Workload workload = BuildWorkload(job);
  std::map<Key, double> flops;
  for (const ModelUnit& unit : workload.units) {
    for (const Operator& op : unit.operators) {
      Count(op.forward, flops);
      for (const ComputeWork& work : op.backward_input) Count(work, flops);
      for (const ComputeWork& work : op.backward_weight) Count(work, flops);
    }
  }
  std::vector<std::pair<double, GemmTask>> sorted;
  for (const auto& [key, amount] : flops) {
    const auto& [m, n, k, dtype] = key;
    sorted.emplace_back(amount, GemmTask{m, n, k, dtype});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  JobShapes shapes;
  for (auto& [amount, gemm] : sorted) shapes.gemms.push_back(std::move(gemm));
  shapes.attention = AttentionOf(job, workload);
  return shapes;
}

}  // namespace stepsim::measure
