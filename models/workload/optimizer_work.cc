#include "models/workload/optimizer_work.h"

#include <algorithm>
#include <utility>

#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"
#include "sim/base/quantity.h"

namespace stepsim {
namespace {

// Moves of every parameter-sized tensor, and operators that torch.optim's foreach and for_loop
// implementations run (weight decay and no amsgrad in AdamW, no weight decay in SGD).
struct StepKernels {
  int fused_passes = 0;
  int passes = 0;
  int operators = 0;
};

StepKernels KernelsOf(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      // fused: p, g, m, v in, p, m, v out. Else: p *= 1 - lr wd (2), m.lerp(g) (3), v *= beta2 (2),
      // v += g g (3), sqrt v (2), / correction (2), + eps (2), p += m / denominator (4)
      return {7, 20, 8};
    case OptimizerKind::kSgd:
      return {3, 3, 1};  // p -= lr g
    case OptimizerKind::kSgdMomentum:
      return {5, 8, 3};  // buffer *= momentum (2), buffer += g (3), p -= lr buffer (3)
    case OptimizerKind::kNone:
      break;
  }
  return {};
}

// ATen's multi_tensor_apply: a launch takes 320 blocks of 65536 elements, and as many tensors as
// fit its arguments: 48 for three lists, 30 for the five of the fused step.
std::int64_t MultiTensorLaunches(std::int64_t elements, std::int64_t tensors, bool is_fused) {
  constexpr std::int64_t kElements = 320 * 65536;
  return std::max(CeilDiv(elements, kElements), CeilDiv(tensors, is_fused ? 30 : 48));
}

// DeepSpeed updates flat tensors: stages 1 and 2 the whole partition, stage 3 one sub-group after
// the other, closed by the tensor that fills it.
std::vector<Workload> SubGroups(const JobSpec& job, const Workload& part) {
  if (job.plan.strategy != "zero") return {part};
  const ZeroPlan& plan = job.plan.zero;
  std::vector<Workload> groups;
  bool is_open = false;
  for (const ParameterTensor& tensor : part.parameters) {
    if (!is_open) groups.push_back({.units = {}, .parameters = {{"partition", 0, tensor.dtype}}});
    std::int64_t& held = groups.back().parameters.front().elements;
    held += tensor.elements;
    is_open = plan.stage != 3 || held < plan.sub_group_size;
  }
  return groups;
}

}  // namespace

std::vector<ComputeWork> OptimizerWork(OptimizerKind optimizer, OptimizerImpl impl,
                                       const Workload& workload) {
  const StepKernels step = KernelsOf(optimizer);
  std::vector<ComputeWork> works;
  if (step.operators == 0) return works;
  const bool is_fused = impl == OptimizerImpl::kFused;
  std::vector<DType> dtypes;
  for (const ParameterTensor& parameter : workload.parameters) {
    if (std::find(dtypes.begin(), dtypes.end(), parameter.dtype) == dtypes.end()) {
      dtypes.push_back(parameter.dtype);
    }
  }
  for (const DType dtype : dtypes) {
    std::int64_t elements = 0;
    std::int64_t tensors = 0;
    for (const ParameterTensor& parameter : workload.parameters) {
      if (parameter.dtype != dtype) continue;
      elements += parameter.elements;
      ++tensors;
    }
    ComputeWork work = MemoryWork(dtype, is_fused ? step.fused_passes : step.passes, elements);
    const std::int64_t launches = impl == OptimizerImpl::kForLoop
                                      ? tensors
                                      : MultiTensorLaunches(elements, tensors, is_fused);
    constexpr std::int64_t kMost = 1'000'000'000;
    work.kernels =
        static_cast<std::int32_t>(std::min(kMost, launches * (is_fused ? 1 : step.operators)));
    works.push_back(work);
  }
  return works;
}

std::vector<ComputeWork> OptimizerWorkOf(const JobSpec& job, const Workload& workload) {
  const Shardings shardings = ShardingsOf(job);
  const Sharding& sharding = shardings.dense;
  Workload part;
  for (ParameterTensor tensor : workload.parameters) {
    tensor.elements = CeilDiv(tensor.elements, shardings.Of(tensor.is_expert).optimizer_shards);
    if (sharding.gather != sharding.storage) tensor.dtype = sharding.storage;
    part.parameters.push_back(std::move(tensor));
  }
  std::vector<ComputeWork> all;
  for (const Workload& group : SubGroups(job, part)) {
    std::vector<ComputeWork> works = OptimizerWork(job.optimizer, job.optimizer_impl, group);
    // Its own parameters are cast to those of compute.
    if (sharding.has_master && !works.empty()) {
      works.front().bytes +=
          CastWork(sharding.storage, sharding.gather, group.parameter_count()).bytes;
    }
    all.insert(all.end(), works.begin(), works.end());
  }
  return all;
}

int OptimizerStates(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kSgdMomentum:
      return 1;
    case OptimizerKind::kSgd:
    case OptimizerKind::kNone:
      break;
  }
  return 0;
}

}  // namespace stepsim
