#include "models/workload/optimizer_work.h"

#include <algorithm>
#include <utility>

#include "models/spec/sharding.h"
#include "models/workload/kernel_work.h"

namespace stepsim {
namespace {

int PassesOf(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      return kPasses.adamw;
    case OptimizerKind::kSgd:
      return kPasses.sgd;
    case OptimizerKind::kSgdMomentum:
      return kPasses.sgd_momentum;
    case OptimizerKind::kNone:
      break;
  }
  return 0;
}

}  // namespace

std::vector<ComputeWork> OptimizerWork(OptimizerKind optimizer, const Workload& workload) {
  const int passes = PassesOf(optimizer);
  std::vector<ComputeWork> works;
  if (passes == 0) return works;
  for (const ParameterTensor& parameter : workload.parameters) {
    const ComputeWork step = MemoryWork(parameter.dtype, passes, parameter.elements);
    const auto group = std::find_if(works.begin(), works.end(), [&](const ComputeWork& work) {
      return work.dtype == parameter.dtype;
    });
    if (group == works.end()) {
      works.push_back(step);
    } else {
      group->bytes += step.bytes;
    }
  }
  return works;
}

std::vector<ComputeWork> OptimizerWorkOf(const JobSpec& job, const Workload& workload) {
  const Sharding sharding = ShardingOf(job);
  Workload part;
  for (ParameterTensor tensor : workload.parameters) {
    tensor.elements = (tensor.elements + sharding.optimizer_shards - 1) / sharding.optimizer_shards;
    tensor.dtype = sharding.storage;
    part.parameters.push_back(std::move(tensor));
  }
  std::vector<ComputeWork> works = OptimizerWork(job.optimizer, part);
  // Its own parameters are cast to those of compute.
  if (sharding.has_master && !works.empty()) {
    works.front().bytes +=
        CastWork(sharding.storage, sharding.gather, part.parameter_count()).bytes;
  }
  return works;
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
